from __future__ import annotations

import pytest

from harness.phone.storage import Storage, parse_df

PATH = "/data/local/tmp/farm"
KIB, GIB = 1024, 1024**3
HEAD = "Filesystem     1K-blocks     Used Available Use% Mounted on\n"
TOOLBOX = "Filesystem             Size   Used   Free   Blksize\n"


@pytest.mark.parametrize(
    ("text", "total", "free"),
    [
        (HEAD + "/dev/block/dm-9  52000000 12000000  40000000  24% /data\n", 52_000_000 * KIB, 40_000_000 * KIB),
        (HEAD + "/dev/fuse        52000000 12000000  40000000  24% /data/user/0\n", 52_000_000 * KIB, 40_000_000 * KIB),
        (
            HEAD.replace("1K", "512") + "/dev/block/dm-9  104000000 24000000  80000000  24% /data\n",
            52_000_000 * KIB,
            40_000_000 * KIB,
        ),
        (
            HEAD + "/dev/block/platform/a-long-name/by-name/userdata\n   52000000 12000000  40000000  24% /data\n",
            52_000_000 * KIB,
            40_000_000 * KIB,
        ),
        ("Filesystem Size Used Avail Use% Mounted on\n/dev/dm-9  50G  12G  38G  24% /data\n", 50 * GIB, 38 * GIB),
        (
            HEAD + "tmpfs  1000 0 1000 0% /dev\n/dev/b1 3000 3000 0 100% /\n/dev/b2 52000000 0 40000000 24% /data\n",
            52_000_000 * KIB,
            40_000_000 * KIB,
        ),
        (HEAD + "/dev/b1 3000 3000 0 100% /\n", 3000 * KIB, 0),
        (TOOLBOX + "/data/local/tmp/farm  12.5G   4.5G   8.0G   4096\n", 25 * GIB // 2, 8 * GIB),
        ("-k: No such file\n" + TOOLBOX + "/data  512.0M  500.0M  12.0M  4096\n", 512 * KIB**2, 12 * KIB**2),
        ("/data: 204800K total, 102400K used, 102400K available (block size 4096)\n", 204_800 * KIB, 102_400 * KIB),
    ],
)  # fmt: skip
def test_every_df_is_read(text: str, total: int, free: int) -> None:
    assert parse_df(text.encode(), PATH) == Storage(total, free)
    assert parse_df(text.replace("\n", "\r\n").encode(), PATH) == Storage(total, free)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "df says nothing"),
        (HEAD, "df says nothing"),
        ("df: /data/local/tmp/farm: Permission denied\n", "df says 'df: /data/local/tmp/farm: Permission denied'"),
        (HEAD + "df: /data: No such file or directory\n", "df says 'df: /data: No such file or directory'"),
        (HEAD + "none 0 0 0 0% /data\n", "df says that 0 of 0 bytes are free, which cannot be"),
        (HEAD + "none 10 0 11 0% /data\n", "df says that 11264 of 10240 bytes are free, which cannot be"),
        (HEAD + "a 10 0 5 0% /dev\nb 10 0 5 0% /apex\n", "df says 'a 10 0 5 0% /dev'"),
        ("sh: df: inaccessible or not found\n", "df says 'sh: df: inaccessible or not found'"),
    ],
)
def test_a_df_that_tells_nothing_has_a_reason(text: str, why: str) -> None:
    assert parse_df(text.encode(), PATH) == Storage(None, None, why)
