"""``vitbench``, and ``python -m vitbench``."""

import gc
import signal


def main() -> None:
    """Run the command line. A Ctrl-C while commands are imported ends it like any program, without a traceback."""
    gc.disable()  # what is imported stays: to look for cycles among it takes a tenth of a command's time or more
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and is not ignored, as in a shell's background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from vitbench.cli.main import main as run

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.freeze()
    gc.enable()
    run()


if __name__ == "__main__":
    main()
