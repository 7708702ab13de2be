from __future__ import annotations

import pytest

from harness.phone.drivers import (
    OPENCL_LIBRARIES,
    PUBLIC_LISTS,
    VULKAN_DRIVERS,
    DriverListing,
    PublicLibraries,
    parse_drivers,
    parse_public_libraries,
)

CL, VK = OPENCL_LIBRARIES[0], "/vendor/lib64/hw/vulkan.toy.so"
ALL = (*OPENCL_LIBRARIES, *VULKAN_DRIVERS)


def missing(*but: str, form: str = "ls: {}: No such file or directory") -> bytes:
    return "\n".join(form.format(path) for path in ALL if path not in but).encode()


def test_a_driver_that_is_listed_is_there() -> None:
    found = parse_drivers(f"{CL}\n{VK}\n".encode() + missing(CL, VULKAN_DRIVERS[0]))
    assert found == DriverListing(CL, VK)


def test_the_first_of_several_names_is_told() -> None:
    listing = "\n".join(reversed(OPENCL_LIBRARIES)).encode()
    assert parse_drivers(listing + b"\n" + missing(*OPENCL_LIBRARIES)).opencl == OPENCL_LIBRARIES[0]


@pytest.mark.parametrize(
    "form", ["ls: {}: No such file or directory", "ls: cannot access '{}': No such file or directory", "ls: {}: weg"]
)
def test_a_driver_that_ls_did_not_find_is_missing(form: str) -> None:
    assert parse_drivers(missing(form=form)) == DriverListing("", "")


def test_a_driver_in_a_folder_that_may_not_be_searched_is_unknown() -> None:
    found = parse_drivers(missing(CL) + f"\nls: {CL}: Permission denied\n".encode())
    assert (found.opencl, found.vulkan) == (None, "")
    assert found.nulls == {"opencl": f"ls: {CL}: Permission denied"}


def test_a_driver_found_elsewhere_is_there_in_spite_of_a_denied_folder() -> None:
    other = OPENCL_LIBRARIES[2]
    found = parse_drivers(other.encode() + b"\n" + missing(CL, other) + f"\nls: {CL}: Permission denied\n".encode())
    assert (found.opencl, found.nulls) == (other, {})


@pytest.mark.parametrize("said", [b"", b"sh: ls: inaccessible or not found\n", b"\xff\xfe\n"])
def test_an_ls_that_says_nothing_proves_no_absence(said: bytes) -> None:
    found = parse_drivers(said)
    assert (found.opencl, found.vulkan) == (None, None)
    assert set(found.nulls) == {"opencl", "vulkan"}


def test_only_a_path_that_was_asked_for_counts() -> None:
    listing = b"no vulkan here\n/tmp/vulkan.fake.so\n/tmp/libOpenCL.so\n"
    assert parse_drivers(listing + missing()) == DriverListing("", "")


def test_an_old_ls_names_the_path_first() -> None:
    assert parse_drivers(missing(form="{}: No such file or directory")) == DriverListing("", "")


def test_a_phone_of_32_bits_has_its_libraries_elsewhere() -> None:
    narrow = tuple(path.replace("/lib64/", "/lib/") for path in ALL)
    listing = "\n".join(f"ls: {path}: No such file or directory" for path in narrow[1:]).encode()
    assert parse_drivers(b"/vendor/lib/libOpenCL.so\n" + listing, 32) == DriverListing("/vendor/lib/libOpenCL.so", "")
    assert parse_drivers(b"/vendor/lib/libOpenCL.so\n" + missing(), 64) == DriverListing("", "")


# --- which of them apps may load ---

VENDOR_LIST, PRODUCT_LIST = PUBLIC_LISTS[0], "/product/etc/public.libraries-maker.txt"


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"libOpenCL.so\n", ("libOpenCL.so",)),
        (b"# ours\nlibtoy.so\nlibOpenCL.so 64 nopreload\r\n", ("libOpenCL.so",)),
        (b"libOpenCL.so 32\n", ()),
        (b"libOpenCL-pixel.so\nlibOpenCL.so\n", ("libOpenCL-pixel.so", "libOpenCL.so")),
        (b"libPVROCL.so", ("libPVROCL.so",)),
        (b"libtoyOpenCL.so\n#libOpenCL.so\n\xff\n", ()),
        (b"", ()),
    ],
)
def test_the_vendors_list_tells_what_apps_may_load(content: bytes, names: tuple[str, ...]) -> None:
    assert parse_public_libraries({VENDOR_LIST: content}, 33) == PublicLibraries(names)


def test_lists_are_read_together() -> None:
    lists = {VENDOR_LIST: b"libtoy.so\n", PRODUCT_LIST: b"libOpenCL.so\n"}
    assert parse_public_libraries(lists, 34) == PublicLibraries(("libOpenCL.so",))


@pytest.mark.parametrize(
    ("lists", "sdk", "why"),
    [
        ({}, 34, "the phone has no /vendor/etc/public.libraries.txt"),
        ({PRODUCT_LIST: b""}, 34, "the phone has no /vendor/etc/public.libraries.txt"),
        ({}, None, "the phone has no /vendor/etc/public.libraries.txt"),
        ({}, 23, "before Android 7 no list says what apps may load"),
        ({VENDOR_LIST: None}, 34, "/vendor/etc/public.libraries.txt may not be read"),
        ({VENDOR_LIST: b"", PRODUCT_LIST: None}, 34, f"{PRODUCT_LIST} may not be read"),
    ],
)
def test_without_a_list_it_is_unknown(lists: dict[str, bytes | None], sdk: int | None, why: str) -> None:
    assert parse_public_libraries(lists, sdk) == PublicLibraries(None, why)
