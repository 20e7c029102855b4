// Package capture records sessions of live agents: it stands between them and an LLM API, carries their traffic unchanged and
// writes each session as an anonymised trace of hash blocks.
//
//	c, err := capture.New(ctx, capture.Options{Dir: dir, Upstreams: upstreams, ...})
//	err = c.Serve(ctx, traffic, admin)
//
// # The way of an exchange
//
// capture/carry passes bytes on and gives copies to an exchange. Its calls return at once: they take places in queues. A pool of
// workers does what is pure: it decodes the copies, parses the prompt (capture/canon), tokenizes what is new of it
// (capture/chain) and reads the reply (capture/reply). The recorder of the session takes the results in the order in which the
// requests arrived, numbers blocks, tells agents apart (capture/agents) and writes the journal (capture/journal). When the
// session is over, its journal becomes a trace (capture/finish).
//
// What does not fit into a queue is dropped whole, and counted under a reason; traffic never waits for any of this.
// doc/spec/capture.md has the rules.
package capture

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/http/httpguts"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/chain"
	"github.com/agentx/agentx/cmd/internal/capture/finish"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/guard"
)

// Capture is a capture that runs.
type Capture struct {
	options  Options
	ctx      context.Context
	folder   *journal.Folder
	left     []string // traces whose journals a crash left
	proxy    *carry.Proxy
	sessions *registry
	pool     *pool
	unnamed  lane // of the exchanges that join by their bodies
	metrics  *metrics
	recent   recent
	full     atomic.Bool   // the disk is
	patience time.Duration // how long the end waits for workers that get nothing done
	turns    chan struct{} // of sessions that are finished, beside traffic as many as workers: takers wait while it is full

	bytes     atomic.Int64
	recovered atomic.Int64 // journals of an earlier process that are finished, or given up

	mu        sync.Mutex // held for as long as it takes to count
	seen      int        // requests
	total     *finish.Total
	failed    int                // journals that could not be finished
	recorders map[*recorder]bool // that are not over
	waiting   map[*exchange]bool // to join by their bodies
	flights   int                // exchanges that are carried
	landed    bool               // no more begin
	said      int64              // when it was said last that something is not recorded
	silent    bool               // it was never said
}

var (
	errDiskFull = errors.New("the disk has less free space than the limit disk_free: free some, or lower the limit")
	errTaken    = errors.New("another process has taken the directory")
)

// patience is how long the end waits at least for workers and disks that get nothing done.
const patience = 10 * time.Second

// New opens the directory of a capture. Serve finishes the journals that a crash left there, beside the traffic. ctx has the options of
// internal/durable, and ends the lease of the directory.
func New(ctx context.Context, o Options) (*Capture, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	folder, err := journal.OpenFolder(ctx, o.Dir, o.Sync == 0)
	if err != nil {
		return nil, err
	}
	c := &Capture{
		options: o, ctx: ctx, folder: folder, total: finish.NewTotal(), metrics: newMetrics(o.Now), recorders: map[*recorder]bool{}, waiting: map[*exchange]bool{}, silent: true,
		patience: max(o.Drain, patience), turns: make(chan struct{}, max(o.Workers, finish.Together)),
	}
	for range cap(c.turns) - o.Workers { // until there is no traffic any more
		c.turns <- struct{}{}
	}
	left, leftErr := folder.Unfinished()
	used, usedErr := folder.Traces()
	key, err := c.key()
	if err := errors.Join(leftErr, usedErr, err); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	c.left = left
	c.sessions = newRegistry(&c.options, key, used, c.record, func(s *session) { s.recorder.tell(func() { s.recorder.why = s.why }) })
	c.proxy, err = carry.New(carry.Options{
		Upstreams: o.Upstreams, Observer: c, Detach: o.Detach, Now: o.Now, Added: func(stage carry.Stage, ns int64) { c.metrics.added.times[stage].add(ns) },
		HeaderTimeout: o.Limits.HeaderTimeout, Stall: o.Limits.Stall,
		// 0 is the default there, and here no room for a copy
		RequestCopy: max(1, o.Limits.RequestCopy), ReplyCopy: max(1, o.Limits.ReplyCopy), Copies: max(1, o.Limits.Copies),
	})
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	c.pool = newPool(o.Workers, o.Limits.Queue)
	c.look()
	return c, nil
}

// key draws a random key. The registry makes one session at a time, so that no two calls read at once.
func (c *Capture) key() (key [sha256.Size]byte, err error) {
	_, err = io.ReadFull(c.options.Random, key[:])
	return key, err
}

// suspense is by how much the wall clock is ahead of the monotonic one. It grows while the machine is suspended.
func (c *Capture) suspense() int64 { return c.options.Wall() - c.options.Now() }

// captureHeader is with what a client says whether it wants to be recorded. It is not forwarded.
const captureHeader = "X-Agentx-Capture"

// passing is an exchange that is only counted.
type passing struct{ c *Capture }

func (passing) RequestChunk(c *carry.Chunk) bool { c.Release(); return false }
func (passing) RequestEnd(error)                 {}
func (passing) Dispatch(int64) *carry.Refusal    { return nil }
func (passing) Head(int64, int, http.Header)     {}
func (passing) ReplyChunk(c *carry.Chunk) bool   { c.Release(); return false }
func (p passing) End(e carry.End)                { p.c.carried(e) }

// carried counts the bytes of an exchange that has ended, and that it is carried no more.
func (c *Capture) carried(e carry.End) {
	c.bytes.Add(e.RequestBytes + e.ReplyBytes)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flights--
	c.pool.news.tell()
}

// Arrive decides what is observed of a request. It is the only call of the carrying side that takes the lock of the registry.
func (c *Capture) Arrive(a *carry.Arrival) (course carry.Course) {
	c.mu.Lock()
	landed := c.landed
	if !landed {
		c.flights++
		c.seen++
	}
	c.mu.Unlock()
	if landed {
		return carry.Course{} // it was aborted already
	}
	counted := false
	pass := func(why journal.Reason) carry.Course {
		if counted = true; why != "" {
			c.leave(why)
		}
		return carry.Course{Exchange: passing{c}}
	}
	defer func() {
		if recover() == nil {
			return
		}
		if course = (carry.Course{Exchange: passing{c}}); !counted {
			course = pass(journal.HoleInternal)
		}
	}()
	format, ok := canon.FormatOf(a.Method, a.Path)
	wish := strings.ToLower(strings.TrimSpace(a.Header.Get(captureHeader)))
	switch {
	case !ok:
		return pass(journal.ReasonEndpoint)
	case wish == "off", c.options.Opted && wish != "on" && a.Session == "":
		return pass(journal.ReasonOptOut)
	}
	x := &exchange{c: c, format: format, share: &share{}, suspense: c.suspense(), head: a}
	id, named := ofHead(x.head, c.options.SessionHeader)
	switch {
	case named && !c.options.Linear:
		counted = true // the session counts it, or it leaves
		if x.join(id) != nil {
			return pass("")
		}
	case !named && c.options.Linear && c.options.DropUnattributed:
		return pass(journal.ReasonOptOut)
	case !named:
		x.unnamed, x.client = true, c.sessions.client(x.head)
	}
	return carry.Course{Exchange: x, Copy: true, Hold: c.options.Linear}
}

// isFinal reports whether a client says that its session ends.
func isFinal(h http.Header) bool {
	switch strings.ToLower(h.Get("X-Dynamo-Session-Final")) {
	case "", "0", "false", "no":
		return false
	}
	return true
}

// joinByBody puts an exchange into the session that its body names, or that of its client.
func (c *Capture) joinByBody(x *exchange) {
	defer c.await(x, false)
	x.mu.Lock()
	p := x.prompt
	x.mu.Unlock()
	id, ok := identity{}, false
	if p != nil && p.options != nil {
		id, ok = ofBody(p.options)
	}
	switch {
	case ok:
	case c.options.DropUnattributed:
		x.leave(journal.ReasonOptOut)
		return
	default:
		id = x.client
	}
	if x.join(id) != nil {
		return // it has left
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.joined {
		c.recent.add(x.client, x.ticket.session.recorder.tree)
	}
}

// Options say what is captured, and how.
type Options struct {
	Dir       string // of the capture: journals, traces, notes
	Upstreams []carry.Upstream

	Tokenizer     chain.Tokenizer
	TokenizerName string
	BlockSize     int

	Opted            bool   // only requests that ask for it are recorded, by header or by a prefix of their path
	SessionHeader    string // that names a session; "": none does
	DropUnattributed bool   // requests that only their client tells apart are not recorded
	Linear           bool   // a session has at most one request in flight
	Detach           bool   // replies are read to their end when their client left

	AdminToken string // that clients of the admin listener send; without one it answers clients on this machine alone (internal/guard)

	Idle   time.Duration // a session that is idle so long is finished
	Drain  time.Duration // how long the end of a session waits for its requests
	Sync   time.Duration // how often journals are synced; 0: after every line
	Export journal.Export
	Limits Limits

	Workers int                  // that observe
	Now     func() int64         // nanoseconds of a monotonic clock
	Wall    func() int64         // nanoseconds of the wall clock, which goes on while the machine is suspended
	Random  io.Reader            // of keys and ids
	Log     *slog.Logger         // gets traces and reasons, never what a client sent
	Free    func() (int64, bool) // bytes that are free on the disk of Dir, if that is known; nil: not looked at
}

// Limits bound what a capture takes. doc/spec/capture.md 7.4 says what is done beyond each.
type Limits struct {
	RequestCopy, ReplyCopy, Copies, Queue int64 // bytes
	Sessions, Blocks, Nodes               int   // Blocks and Nodes: of a session
	HeaderTimeout, Stall                  time.Duration
	DiskFree                              int64 // bytes
}

// DefaultLimits are the limits that are not given.
var DefaultLimits = Limits{
	RequestCopy: 64 << 20, ReplyCopy: 16 << 20, Copies: 1 << 30, Queue: 256 << 20,
	Sessions: 10_000, Blocks: 2_000_000, Nodes: 200_000,
	HeaderTimeout: 600 * time.Second, DiskFree: 64 << 20,
}

// Validate names everything that is wrong.
func (o *Options) Validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("option Dir is empty: name the directory for traces"))
	}
	if o.Tokenizer == nil || o.Now == nil || o.Wall == nil || o.Random == nil || o.Log == nil {
		errs = append(errs, errors.New("one of the options Tokenizer, Now, Wall, Random and Log is nil: set all five"))
	}
	if o.SessionHeader != "" && !httpguts.ValidHeaderFieldName(o.SessionHeader) {
		errs = append(errs, fmt.Errorf("session header %q: not a valid name of a header: want letters, digits and hyphens", o.SessionHeader))
	}
	l := o.Limits
	for _, c := range []struct {
		good bool
		name string
		is   any
		want string
	}{
		{o.Workers >= 1, "workers", o.Workers, "at least 1"},
		{o.Idle >= 0, "idle", o.Idle, "0 or more"}, {o.Drain >= 0, "drain", o.Drain, "0 or more"}, {o.Sync >= 0, "sync", o.Sync, "0 or more"},
		{l.Sessions >= 1, "limit sessions", l.Sessions, "at least 1"}, {l.Blocks >= 1, "limit blocks", l.Blocks, "at least 1"}, {l.Nodes >= 1, "limit nodes", l.Nodes, "at least 1"},
		{l.HeaderTimeout > 0, "limit header_timeout", l.HeaderTimeout, "more than 0"}, {l.Stall >= 0, "limit stall", l.Stall, "0 or more"},
	} {
		if !c.good {
			errs = append(errs, fmt.Errorf("%s %v: want %s", c.name, c.is, c.want))
		}
	}
	errs = append(errs, carry.ValidateUpstreams(o.Upstreams), o.Export.Validate(), chain.Options{Tokenizer: o.Tokenizer, Name: o.TokenizerName, BlockSize: o.BlockSize}.Validate())
	return errors.Join(errs...)
}

// Serve carries what comes in on traffic, and answers on admin, until ctx ends. Then it takes no more requests, waits for those
// that run, as long as options say, and finishes all sessions.
func (c *Capture) Serve(ctx context.Context, traffic, admin net.Listener) error {
	tick, stop := context.WithCancel(c.ctx)
	var ticking sync.WaitGroup
	ticking.Go(func() { c.keep(tick) })
	ticking.Go(func() { c.recover(tick) })
	server := c.proxy.Server()
	control := &http.Server{Handler: c.admin(guard.New("--admin", admin.Addr(), c.options.AdminToken)), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(traffic) }()
	go func() { failed <- control.Serve(admin) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	err = errors.Join(err, c.shutDown(server), control.Close())
	c.wait(func() bool { return int(c.recovered.Load()) == len(c.left) })
	stop()
	ticking.Wait()
	return errors.Join(err, c.unfinished(), c.folder.Close())
}

// recover finishes the journals that a crash left, until ctx ends.
func (c *Capture) recover(ctx context.Context) {
	err := finish.Each(ctx, c.folder, c.left, func(k int) error {
		c.turns <- struct{}{}
		r, err := c.finish(c.left[k])
		<-c.turns
		if err == nil {
			c.options.Log.Info("finished a journal that was left", "trace", r.Trace, "recorded", r.Recorded)
		} else {
			c.mu.Lock()
			c.failed++
			c.mu.Unlock()
		}
		c.recovered.Add(1)
		c.pool.news.tell()
		return err
	})
	if err != nil { // of the disk: traffic is carried all the same
		c.options.Log.Error("journals that were left could not be finished: agentx capture finish does it later", "error", err)
	}
}

// shutDown ends the traffic, then the sessions, then the workers. Workers that are stuck do not hold it up: what is known of the
// sessions is written.
func (c *Capture) shutDown(server *http.Server) error {
	c.land(server)
	for range cap(c.turns) - c.options.Workers {
		<-c.turns
	}
	settled := c.wait(c.pool.resting)
	c.sessions.shutdown(true, c.options.Now())
	over := func() bool { return len(c.alive()) == 0 }
	if settled && c.wait(over) {
		c.pool.close()
		return nil
	}
	list := c.alive()
	c.options.Log.Error("workers are stuck: sessions end with what is known of them", "sessions", len(list))
	c.pool.giveUp()
	c.mu.Lock()
	waiting := slices.Collect(maps.Keys(c.waiting))
	c.mu.Unlock()
	for _, x := range waiting {
		x.leave(journal.HoleAborted)
	}
	for _, r := range list {
		r.giveUp()
	}
	if !c.wait(over) {
		return fmt.Errorf("%d sessions could not be written: agentx capture finish %s does it later", len(c.alive()), c.options.Dir)
	}
	return nil
}

// land waits for the exchanges that run, as long as options say, and aborts the others.
func (c *Capture) land(server *http.Server) {
	drain, stop := context.WithTimeout(context.WithoutCancel(c.ctx), c.options.Drain)
	defer stop()
	ended := server.Shutdown(drain) == nil
	landed := func() bool { return c.carrying() == 0 }
	for !landed() && drain.Err() == nil {
		select {
		case <-c.pool.news:
		case <-drain.Done():
		}
	}
	if !ended || !landed() {
		c.proxy.Abort()
		_ = server.Close()
	}
	c.mu.Lock()
	c.landed = true
	c.mu.Unlock()
	c.wait(landed)
}

// wait waits until something is done, as long as workers get something done. It reports whether that happened.
func (c *Capture) wait(done func() bool) bool {
	late := time.NewTimer(c.patience)
	defer late.Stop()
	for before := c.progress(); !done(); {
		select {
		case <-c.pool.news:
			if now := c.progress(); now != before {
				before = now
				late.Reset(c.patience)
			}
		case <-late.C:
			return done()
		}
	}
	return true
}

// progress returns a number that grows with each task, session and recovered journal.
func (c *Capture) progress() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pool.progress() + c.total.Sessions + int(c.recovered.Load())
}

// keep syncs journals, sweeps sessions and looks at the disk, until ctx ends.
func (c *Capture) keep(ctx context.Context) {
	every := time.Second
	if c.options.Sync > 0 {
		every = min(every, c.options.Sync)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	taken := c.folder.Context().Done()
	for synced := c.options.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-taken:
			taken = nil
			c.options.Log.Error("nothing is recorded any more: another process has taken the directory", "error", context.Cause(c.folder.Context()))
		case <-ticker.C:
		}
		now := c.options.Now()
		c.sessions.sweep(now)
		c.look()
		if now-synced >= int64(c.options.Sync) {
			c.folder.Sync()
			synced = now
		}
	}
}

// look notes whether the disk has less free space than it must have.
func (c *Capture) look() {
	if c.options.Free != nil {
		free, known := c.options.Free()
		c.full.Store(known && free < c.options.Limits.DiskFree)
	}
}

// unwritable returns why no journal is begun; nil where one can be.
func (c *Capture) unwritable() error {
	switch {
	case c.folder.Context().Err() != nil:
		return errTaken
	case c.full.Load():
		return errDiskFull
	}
	return nil
}

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

// behind returns a handler that asks a guard before mux, and whose errors are JSON.
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

// refusal answers with a status and its text as an error body.
type refusal struct{ http.ResponseWriter }

// WriteHeader answers with the status and its text as the error of a JSON object.
func (r refusal) WriteHeader(status int) {
	answer(r.ResponseWriter, status, map[string]string{"error": strings.ToLower(http.StatusText(status))})
}

func (refusal) Write(p []byte) (int, error) { return len(p), nil }

// gauges registers the gauges of /metrics, which read the state of the capture when they are asked for.
func (c *Capture) gauges() {
	c.metrics.gauge("inflight", "Requests that are carried now.", nil, func() float64 { return float64(c.carrying()) })
	c.metrics.gauge("queue_bytes", "Bytes that wait for workers, or for the order of requests.", nil, func() float64 { return float64(c.pool.used()) })
	c.metrics.gauge("copy_bytes", "Bytes of all copies.", nil, func() float64 { return float64(c.proxy.CopyBytes()) })
	for state := stateOpen; state <= stateFinished; state++ {
		c.metrics.gauge("sessions", "Sessions, by state.", prometheus.Labels{"state": state.String()}, func() float64 { return float64(c.sessions.counts()[state]) })
	}
}

// answer answers with a status and a value as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"no answer"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that has left does not matter
}
