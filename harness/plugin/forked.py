"""In the place of a worker's Python: hands its pipes to the fork server, and stands in for the copy that gets them.

Run as ``python -I -S forked.py SOCKET …``, 64 times at once, so it imports next to nothing; what follows the socket is
what execnet would tell a Python, and means nothing here.
"""

import os
import signal
import socket
import sys


def main() -> None:
    """Get a worker, pass SIGTERM on to it, and end as it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's goes to the worker, too
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.connect(sys.argv[1])
    socket.send_fds(server, [b"w"], [0, 1, 2])
    os.close(0)
    os.close(1)
    answers = server.makefile()
    pid = int(answers.readline() or 0)
    if pid:
        signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    status = int(answers.readline() or 1)  # the server is gone, and its workers with it
    if status >= 0:
        os._exit(status)
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)


main()
