"""The command has ended: look into a bad end, say the last lines, leave."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from unhang.records.process_registration import read_internal_errors
from unhang.watch import saved_sample, state_at_verdict
from unhang.watch.launch.records_folder import remove_records
from unhang.watch.reporting import announcements
from unhang.watch.reporting.verdict_summary import HEALTHY, VerdictLevel
from unhang.watch.stall_episode import StallEpisode
from unhang.watch.verdict.diagnosis_child import DiagnosisChild

if TYPE_CHECKING:
    from unhang.watch.watcher import Watcher

EXIT_STATUS_LIMIT_S = 2.0
"""Seconds: the command runner writes down how the command ended a moment after it did."""


class RunShutdown:
    """Runs once, after the command ended: final sample, verdict, last lines, clean-up."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def close(self) -> None:
        """Everything that is left to do."""
        watcher = self._watcher
        self._stop_activities()
        failed = self._failed()
        self._judge(failed=failed)
        state_at_verdict.restore_if_live(watcher.folder.path)
        for line in announcements.internal_error_lines(read_internal_errors(watcher.records), watcher.members):
            watcher.folder.say(line)
        watcher.folder.say(announcements.summary_lines(watcher.totals, watcher.nodes.all_ranks(), watcher.folder.path))
        if watcher.tasks.ended_well():
            self._keep_healthy_evidence()
        watcher.observers.close(failed=failed)
        watcher.nodes.leave(failed=failed)
        watcher.machine.end()
        if watcher.tasks.are_runners_gone():
            remove_records(watcher.records)

    def _stop_activities(self) -> None:
        watcher = self._watcher
        watcher.members.refresh()
        watcher.members.wait(0)
        watcher.moving.cancel_requests()
        watcher.series.close()
        watcher.settings.end()
        if watcher.child is not None:
            watcher.child.wait()
            watcher.take_result()
        if watcher.abort is not None:
            watcher.abort.finish()
            state_at_verdict.restore(watcher.folder.path)

    def _judge(self, *, failed: bool) -> None:
        """Say why it failed where that was not said; what was never said of a job that ended well is nothing."""
        watcher, last = self._watcher, self._last_episode()
        said = last.said if last is not None else None
        explained = (
            watcher.failure_explained or watcher.abort is not None or (said is not None and said.explains_the_end)
        )
        if failed and watcher.members.by_rank and not explained and not watcher.nodes.wait_for_leader_verdict():
            self._diagnose_failure(last)
        elif last is not None and watcher.tasks.ended_well():
            watcher.wait_is_over(last)
        elif last is not None and last.changed and last.last is not None:
            watcher.report_episode(last, last.last, last.text)  # it was not steady yet; now it stays
        elif last is not None and said is None and last.last is not None and last.last.cause:
            watcher.totals.findings.append(last.last.cause)  # ended from outside before it was sure enough to be said

    def _last_episode(self) -> StallEpisode | None:
        watcher = self._watcher
        waits = [wait for wait in (watcher.episode, watcher.ended_episode, watcher.left) if wait is not None]
        return next((wait for wait in waits if wait.said is not None), waits[0] if waits else None)

    def _failed(self) -> bool:
        """The command ended badly, and nobody had asked it to end."""
        tasks, members = self._watcher.tasks, self._watcher.members
        deadline = time.monotonic() + EXIT_STATUS_LIMIT_S
        while not tasks.told() and time.monotonic() < deadline:
            time.sleep(0.02)
        failed = tasks.failed()
        if failed is None:
            return any(member.exit_code not in (0, None) for member in members.by_rank.values())
        return failed

    def _keep_healthy_evidence(self) -> None:
        """What shows that every rank is well; nothing where that is not shown, or something else was said."""
        watcher = self._watcher
        members, folder = watcher.members, watcher.folder
        if not members.by_rank or folder.verdict.exists() or watcher.nodes.cluster is not None:
            return
        members.infer_clean_exits()
        order = watcher.next_request(None, with_stacks=False, live=False)
        child = DiagnosisChild.start(replace(order, ended_well=True), folder, waited_s=0.0, width=watcher.plan.width)
        child.wait()
        answer = child.answer()
        if answer is None or answer[0].status != HEALTHY:
            saved_sample.discard(folder.path)

    def _diagnose_failure(self, last: StallEpisode | None) -> None:
        watcher, said = self._watcher, last.said if last is not None else None
        order = watcher.nodes.ask(watcher.next_request(None, with_stacks=False, live=False), None)
        if said is not None:
            order = replace(order, said=(said.cause, said.certainty))
        child = DiagnosisChild.start(order, watcher.folder, waited_s=0.0, width=watcher.plan.width)
        child.wait()
        watcher.totals.failed_samples += child.failed
        answer = child.answer()
        if answer is None and last is not None and last.changed and last.last is not None:
            watcher.report_episode(last, last.last, last.text)  # it stands again
        if answer is None or answer[0].level != VerdictLevel.CRASH.value:
            return
        if said is not None and answer[0].blame_key == said.blame_key:
            watcher.folder.say(announcements.still_holds())
        elif last is not None and said is not None:
            watcher.report_episode(last, *answer)
        else:
            watcher.totals.found(answer[0].cause)
            watcher.report_verdict(*answer)
