package capture

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/internal/guard"
)

// admin returns what the admin listener answers with, behind its guard.
func (c *Capture) admin(g *guard.Guard) http.Handler {
	c.gauges()
	mux := http.NewServeMux()
	mux.Handle("GET /health", carry.Health())
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.metrics.registry, promhttp.HandlerOpts{}))
	answers := func(pattern string, status int, what func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			switch v, err := what(r); {
			case err != nil:
				answer(w, cmp.Or(refusals[err], http.StatusInternalServerError), map[string]string{"error": err.Error()})
			case v == nil:
				w.WriteHeader(status)
			default:
				answer(w, status, v)
			}
		})
	}
	answers("POST /sessions", http.StatusCreated, func(*http.Request) (any, error) {
		s, err := c.sessions.create(c.options.Now())
		if err != nil {
			return nil, err
		}
		return map[string]string{"session_id": s.ID, "url": "/s/" + s.ID}, nil
	})
	answers("GET /sessions", http.StatusOK, func(*http.Request) (any, error) { return c.sessions.list(), nil })
	answers("GET /sessions/{id}", http.StatusOK, func(r *http.Request) (any, error) { return c.sessions.get(r.PathValue("id")) })
	answers("DELETE /sessions/{id}", http.StatusAccepted, func(r *http.Request) (any, error) {
		return nil, c.sessions.delete(r.PathValue("id"), c.options.Now())
	})
	return behind(g, mux)
}

// refusals has the status of each error of the registry.
var refusals = map[error]int{errNotFound: http.StatusNotFound, errClosing: http.StatusNotFound, errBusy: http.StatusConflict, errTooMany: http.StatusTooManyRequests}

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
		c.metrics.gauge("sessions", "Sessions, by state.", prometheus.Labels{"state": state.String()}, func() float64 { return float64(c.sessions.counts()[state]) })
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
