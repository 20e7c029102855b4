package carry

import (
	"io"
	"log"
	"net/http"
	"time"
)

// Server returns an HTTP server for the proxy, which carries what other servers would answer themselves. It writes no log:
// messages of net/http name addresses of clients and values of panics.
func (p *Proxy) Server() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: p, Protocols: protocols,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            time.Minute,
		ErrorLog:                     log.New(io.Discard, "", 0),
	}
}

// Health answers every GET with 200. It takes no lock and reads no state: it says that the process runs.
func Health() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"ok"}`+"\n")
	})
}
