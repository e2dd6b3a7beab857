"""queue runner: python runner.py JOBFILE  (one job a line, JSON)"""
import json, os, signal, subprocess, sys, time, psutil
done = "/home/user/done.jsonl"
def one(j):
    cwd = "/home/user/proj/" + j["proj"]
    if j.get("pre"): subprocess.run(j["pre"], shell=True, cwd=cwd)
    env = dict(os.environ); env["PATH"] = "/home/user/venv/bin:" + env["PATH"]
    for k in list(env):
        if k.upper().endswith("_PROXY") and j.get("noproxy"): env.pop(k)
    env.update(HF_HUB_OFFLINE="1", WANDB_MODE="offline", HF_HUB_DISABLE_TELEMETRY="1", PYTHONUNBUFFERED="1")
    env.update(j.get("env", {}))
    out = f"/home/user/runs/{j['out']}"
    os.makedirs(os.path.dirname(out), exist_ok=True)
    t = time.time()
    with open(out, "wb") as f:
        p = subprocess.Popen(["nice", "-n", "10", "bash", "-c", j["cmd"]], cwd=cwd, env=env, stdout=f, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        ended = "self"
        try: rc = p.wait(j["limit"])
        except subprocess.TimeoutExpired:
            ended = j.get("end", "kill")
            kids = [psutil.Process(p.pid)] + psutil.Process(p.pid).children(recursive=True)
            if ended in ("int", "term"):
                sig = signal.SIGINT if ended == "int" else signal.SIGTERM
                tgt = [k for k in kids if j["target"] in " ".join(k.cmdline())][:1]
                for k in tgt: k.send_signal(sig)
                try: p.wait(60)
                except subprocess.TimeoutExpired: ended += "+kill"
            me = psutil.Process(p.pid) if psutil.pid_exists(p.pid) else None
            allk = kids + ([me] if me else [])
            try: allk += me.children(recursive=True) if me else []
            except psutil.Error: pass
            for k in allk:
                try: k.kill()
                except psutil.Error: pass
            rc = p.wait()
    # leftover processes that this job started
    for pr in psutil.process_iter(["pid", "cwd", "create_time"]):
        try:
            if pr.info["cwd"] and pr.info["cwd"].startswith(cwd) and pr.info["create_time"] >= t - 1 and pr.pid != os.getpid(): pr.kill()
        except psutil.Error: pass
    rec = dict(j, rc=rc, ended=ended, secs=round(time.time() - t, 1), at=time.strftime("%H:%M:%S"))
    open(done, "a").write(json.dumps(rec) + "\n"); print(j["out"], rc, ended, rec["secs"], flush=True)
pos = int(sys.argv[2]) if len(sys.argv) > 2 else 0
while True:
    lines = open(sys.argv[1]).read().splitlines()
    if pos < len(lines):
        l = lines[pos].strip(); pos += 1
        if l == "STOP": break
        if l:
            one(json.loads(l))
    else: time.sleep(1)
