"""Questions of the script whose answers depend on how long work takes: is an event over, how long was it. The script may
act differently on another device, so each question is logged."""
import functools

from . import log


def _tell(owner, name):
    ask = getattr(owner, name, None)
    if ask is None:
        return

    @functools.wraps(ask)
    def told(*arguments, **options):
        answer = ask(*arguments, **options)
        log.line("asked", log.text(f"{owner.__name__}.{name}"))
        return answer

    setattr(owner, name, told)


def watch(torch):
    for owner, name in ((torch.cuda.Event, "query"), (torch.cuda.Event, "elapsed_time"), (torch.cuda.Stream, "query")):
        _tell(owner, name)
