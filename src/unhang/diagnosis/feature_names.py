"""The features known incidents are counted by, in words: what stands behind "known incidents where …"."""

from __future__ import annotations

from unhang.sentences import Text, say

_FEATURE_TEXTS: dict[str, Text] = {
    "barrier": say("ranks waited in a barrier"),
    "pos:first": say("the first collective of the job hung"),
    "pos:early": say("one of the first hundred collectives hung"),
    "pos:late": say("a collective hung after hundreds of others"),
    "pos:differ": say("ranks waited at different positions"),
    "absent:0": say("every rank but rank 0 gave up waiting"),
    "absent:other": say("all ranks but one gave up waiting"),
    "absent:none": say("the log does not tell which rank was missing"),
    "limit:600": say("the limit was 10 minutes"),
    "limit:1800": say("the limit was 30 minutes"),
    "limit:other": say("the limit had been changed"),
    "no-steps": say("no step had been made"),
    "speakers:many": say("several ranks wrote to the log"),
    "last:save": say("the last ordinary line spoke of saving"),
    "last:eval": say("the last ordinary line spoke of evaluating or generating"),
    "last:data": say("the last ordinary line spoke of data"),
    "last:end": say("the last ordinary line spoke of an end"),
    "last:step": say("the last ordinary line spoke of a step"),
    "last:compile": say("the last ordinary line spoke of compiling"),
    "last:model": say("the last ordinary line spoke of loading a model"),
    "last:start": say("the last ordinary line spoke of starting up"),
    "last:serve": say("the last ordinary line spoke of serving requests"),
    "near:save": say("saving was spoken of shortly before"),
    "near:eval": say("evaluation was spoken of shortly before"),
    "near:data": say("data was spoken of shortly before"),
    "near:end": say("an end was spoken of shortly before"),
    "near:step": say("steps were made shortly before"),
    "near:compile": say("compiling was spoken of shortly before"),
    "near:model": say("a model was loaded shortly before"),
    "near:start": say("the job had just started up"),
    "near:serve": say("requests were served shortly before"),
    "says:network": say("lines told of trouble in the network"),
    "says:peer-gone": say("a partner was gone"),
    "says:killed": say("something was killed"),
    "says:version": say("versions were printed"),
    "says:mismatch": say("lines told of a mismatch"),
    "says:device-guess": say("torch guessed a rank's device"),
    "says:store-timeout": say("a wait on the store ended"),
    "look:cards-busy": say("all cards were busy while the job stood"),
    "look:stacks": say("somebody looked at the stacks"),
    "ever:stand": say("somebody wrote that it stood"),
    "crash": say("a process ended with an error"),
    "no-exit": say("no process was seen to end"),
}
_OPERATION, _EXCEPTION, _STACK, _EXIT, _WORDS, _IN = "op:", "exc:", "with:", "exit:", "words:", "in:"


def feature_text(feature: str) -> Text | None:
    """``feature`` in words; None for one that only counts."""
    if feature in _FEATURE_TEXTS:
        return _FEATURE_TEXTS[feature]
    if feature.startswith(_OPERATION):
        return say("ranks waited in {operation}", operation=feature.removeprefix(_OPERATION))
    if feature.startswith(_EXCEPTION):
        return say("{exception} was raised", exception=feature.removeprefix(_EXCEPTION))
    if feature.startswith(_IN):
        return say("an exception came from {function}", function=feature.removeprefix(_IN))
    if feature.startswith(_WORDS):
        return say("lines spoke of {cause}", cause=feature.removeprefix(_WORDS))
    if feature.startswith(_STACK):
        return say("{name} took part", name=feature.removeprefix(_STACK))
    if feature.startswith(_EXIT):
        return say("a process ended with {code}", code=feature.removeprefix(_EXIT))
    return None
