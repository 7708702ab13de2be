"""What goes wrong with Hugging Face, in one sentence that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.core.errors import ConfigError, FarmError, HostError

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

_GO_ON = "run the same again: it goes on where it stopped"
_LOGIN = "set HF_TOKEN or run: hf auth login"


@contextmanager
def in_one_sentence(what: str, revision: str | None = None) -> Iterator[None]:
    """Turn what ``huggingface_hub`` raises into an error of ours.

    Args:
        what: is asked for, e.g. ``hf:ORG/NAME/llm.mnn``.
        revision: that is asked for.

    Raises:
        ConfigError: there is no such thing, or it may not be read.
        HostError: the hub cannot be reached, or answers something else.
        OSError: the disk refuses.
    """
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    client_error: type[Exception] = HfHubHTTPError.__bases__[0]  # of the HTTP client, whichever package that is
    try:
        yield
    except HfHubHTTPError as error:
        raise _refused(error, what, revision) from error
    except OfflineModeIsEnabled as error:
        raise HostError(f"{what} cannot be fetched: HF_HUB_OFFLINE is set", remedy="unset it") from error
    except client_error as error:
        raise HostError(
            f"the hub cannot be reached for {what} ({_first_line(error)})",
            remedy=f"check network, proxy and HF_ENDPOINT, then {_GO_ON}",
        ) from error
    except OSError as error:
        if error.errno is not None:  # the disk's own: the caller knows which one
            raise
        raise HostError(f"{what} did not come whole ({_first_line(error)})", remedy=_GO_ON) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HostError(
            f"the answer for {what} is not the hub's ({_first_line(error)})", remedy="check HF_ENDPOINT and the proxy"
        ) from error


def _refused(error: HfHubHTTPError, what: str, revision: str | None) -> FarmError:
    """Say what an answer of the hub that is no success means; it hides what is private behind 401 and 404."""
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, GatedRepoError):
        return ConfigError(
            f"{what} is gated: whoever owns it has to let you in", remedy=f"ask for access on its page, then {_LOGIN}"
        )
    status = error.response.status_code
    if isinstance(error, RepositoryNotFoundError) or status == 401:
        return ConfigError(
            f"{what} is not on the hub, or it is private", remedy=f"check the name; for a private one {_LOGIN}"
        )
    if isinstance(error, RevisionNotFoundError):
        remedy = "name a branch, tag or commit, or leave it out for the newest"
        return ConfigError(f"{what} has no revision {revision}", remedy=remedy)
    if isinstance(error, EntryNotFoundError):
        return HostError(f"{what} is listed by the hub and is not there", remedy="try again later, or another revision")
    if status == 403:
        return ConfigError(f"{what} may not be read with this token (HTTP {status})", remedy=_LOGIN)
    return HostError(f"the hub answered HTTP {status} for {what}", remedy=_GO_ON)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__
