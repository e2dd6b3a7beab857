"""Posts in whole sentences of whose advice nothing is known are articles; logs and lists of steps are none."""

from __future__ import annotations

from unhang.report.explain.article_advice import advice_in

POST = """Our saves froze the whole cluster, and this is how we got out of it in the end.
The head node stood still whenever the adapters were written, and nobody could log in.
The network seemed to be at fault, a mistake that cost us the better part of a week.
Move the adapters to the disk of each node before anything else is changed in the job.
Nothing in the logs of the launcher told us which of the writers was the slow one.
The other thing that surprised us was how large the states of the optimizer had become.
Keep the tokenizer out of the folder, since nobody reads it while the model is trained.
After that the job ran for three weeks, and the head node was as quiet as a church.
"""
LOG = "".join(f"[rank{rank}]: step {step} of the training took {step}.1 s\n" for rank in range(4) for step in range(9))


def test_a_post_is_an_article_though_its_advice_is_unknown() -> None:
    advice = advice_in(POST, few_known=None)[1]

    assert {one.sentence.line for one in advice} == {4, 7}
    assert {one.worth for one in advice} == {"unknown"}
    assert advice_in(POST)[1] == ()


def test_a_log_with_two_hints_is_none() -> None:
    hints = "Use a larger buffer for the reader of the data.\nSet the number of the workers to a smaller value.\n"

    assert advice_in(LOG + hints, few_known=None)[1] == ()
