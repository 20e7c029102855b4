package capture

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/agentx/agentx/capture/carry"
	"github.com/agentx/agentx/internal/guard"
)

// admin returns what the admin listener answers with, behind its guard.
func (c *Capture) admin(g *guard.Guard) http.Handler {
	c.gauges()
	mux := http.NewServeMux()
	mux.Handle("GET /health", carry.Health())
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("POST /sessions", c.createSession)
	mux.HandleFunc("GET /sessions", c.listSessions)
	mux.HandleFunc("GET /sessions/{id}", c.getSession)
	mux.HandleFunc("DELETE /sessions/{id}", c.deleteSession)
	return behind(g, mux)
}

// behind puts a guard before what answers.
func behind(g *guard.Guard, mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, why := g.Refuse(w, r)
		_, pattern := mux.Handler(r)
		switch {
		case status != 0:
			answer(w, status, map[string]string{"error": why})
			return
		case pattern == "": // 404 or 405
			w = refusal{w}
		case r.Method != http.MethodGet && r.Method != http.MethodHead && guard.Plain(r):
			answer(w, http.StatusUnsupportedMediaType, map[string]string{"error": r.Method + ": send Content-Type: application/json or " + guard.Header + ": 1, which a page of another origin may not"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// refusal answers with the text of a status as an error, in the place of another body.
type refusal struct{ http.ResponseWriter }

func (r refusal) WriteHeader(status int) {
	answer(r.ResponseWriter, status, map[string]string{"error": strings.ToLower(http.StatusText(status))})
}

func (refusal) Write(p []byte) (int, error) { return len(p), nil }

func (c *Capture) gauges() {
	c.metrics.gauge("inflight", "Requests that are carried now.", nil, func() float64 { return float64(c.carrying()) })
	c.metrics.gauge("queue_bytes", "Bytes that wait for workers, or for the order of requests.", nil, func() float64 { return float64(c.pool.used()) })
	c.metrics.gauge("copy_bytes", "Bytes of all copies.", nil, func() float64 { return float64(c.proxy.CopyBytes()) })
	for state := stateOpen; state <= stateFinished; state++ {
		c.metrics.gauge("sessions", "Sessions, by state.", prometheus.Labels{"state": state.String()}, func() float64 { return float64(c.sessions.Counts()[state]) })
	}
}

// answer writes a JSON object.
func answer(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"no answer"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that has left does not matter
}

// refuse answers with an error of the registry.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, errNotFound), errors.Is(err, errClosing):
		status = http.StatusNotFound
	case errors.Is(err, errBusy):
		status = http.StatusConflict
	case errors.Is(err, errTooMany):
		status = http.StatusTooManyRequests
	}
	answer(w, status, map[string]string{"error": err.Error()})
}

func (c *Capture) createSession(w http.ResponseWriter, _ *http.Request) {
	s, err := c.sessions.Create(c.options.Now())
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusCreated, map[string]string{"session_id": s.ID, "url": "/s/" + s.ID})
}

func (c *Capture) listSessions(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, c.sessions.List())
}

func (c *Capture) getSession(w http.ResponseWriter, r *http.Request) {
	info, err := c.sessions.Get(r.PathValue("id"))
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, info)
}

func (c *Capture) deleteSession(w http.ResponseWriter, r *http.Request) {
	if err := c.sessions.Delete(r.PathValue("id"), c.options.Now()); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}
