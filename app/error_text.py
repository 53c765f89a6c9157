"""What libraries say of their errors, made fit to stand inside a sentence of ours."""


def innermost(error: BaseException) -> BaseException:
    """The reason that requests wraps around urllib3's wrapping of what the system said."""
    causes = (getattr(error, "reason", None), *error.args)
    inner = next((cause for cause in causes if isinstance(cause, BaseException)), None)
    return innermost(inner) if inner else error


def last_words(error: BaseException) -> str:
    """What the system itself said, without what each library has put before it."""
    return str(innermost(error)).rpartition(": ")[2]


def one_line(message: str) -> str:
    """The message on one line, without a full stop."""
    return " ".join(message.split()).rstrip(".")
