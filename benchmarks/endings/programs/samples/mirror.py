import http.server, sys
n = 0
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global n; n += 1
        if n < 4:
            self.close_connection = True
            return
        self.send_response(200); self.end_headers()
        self.wfile.write(b"\n".join(b"w%d" % i for i in range(500)))
        self.server._stop = True
    def log_message(self, *a): pass
s = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), H); s._stop = False
while not s._stop: s.handle_request()
