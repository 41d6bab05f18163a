"""Errors that a user can correct."""


class UserError(Exception):
    """Something wrong with what was given, or with the machine that it was given to.

    The message says what is wrong and what to do: the command line prints it and nothing else, with exit status 2.
    """

    def _render_traceback_(self) -> list[str]:
        """Print it in a notebook as on the command line, without frames. IPython looks for a method of this name."""
        return [f"{type(self).__name__}: {self}"]
