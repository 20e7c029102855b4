package capture

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/capture/canon"
	"github.com/agentx/agentx/capture/carry"
	"github.com/agentx/agentx/capture/finish"
	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/capture/session"
)

// Capture is a capture that runs.
type Capture struct {
	options  Options
	ctx      context.Context
	folder   *journal.Folder
	proxy    *carry.Proxy
	sessions *session.Registry[*recorder]
	clients  *session.Clients
	pool     *pool
	line     *line
	metrics  *metrics
	alive    sync.WaitGroup // recorders
	full     atomic.Bool    // the disk is

	randomMu sync.Mutex // of options.Random

	mu    sync.Mutex
	total *finish.Total
	bytes int64
	seen  int
	said  time.Time // when it was said last that something is not recorded
}

var errDiskFull = errors.New("the disk has less free space than disk_free")

// New opens the directory of a capture, and finishes the journals that a crash left there. ctx has the options of
// internal/durable, and ends the lease of the directory.
func New(ctx context.Context, o Options) (*Capture, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	folder, err := journal.OpenFolder(ctx, o.Dir, journal.Options{SyncEach: o.Sync == 0})
	if err != nil {
		return nil, err
	}
	c := &Capture{options: o, ctx: ctx, folder: folder, total: finish.NewTotal(), metrics: newMetrics()}
	list, err := finish.Recover(ctx, folder)
	for _, r := range list {
		c.options.Log.Info("finished a journal that was left", "trace", r.Trace, "recorded", r.Recorded)
	}
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	key, err := c.key()
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	c.clients = session.NewClients(key)
	c.sessions = session.NewRegistry(session.Options[*recorder]{
		Limit: o.Limits.Sessions, Idle: o.Idle, Drain: o.Drain, Linear: o.Linear, Random: c, Open: c.open, Clients: c.clients,
	})
	c.line = &line{join: c.joinByBody}
	c.proxy, err = carry.New(carry.Options{
		Upstreams: o.Upstreams, Observer: c, Detach: o.Detach, Now: o.Now, Added: c.metrics.added,
		Timeouts: carry.Timeouts{Header: o.Limits.HeaderTimeout, Stall: o.Limits.Stall},
		Limits:   carry.Limits{RequestCopy: o.Limits.RequestCopy, ReplyCopy: o.Limits.ReplyCopy, Copies: o.Limits.Copies},
	})
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	c.pool = newPool(o.Workers, o.Limits.Queue)
	return c, nil
}

// Read draws random bytes. Sessions are made by several goroutines.
func (c *Capture) Read(b []byte) (int, error) {
	c.randomMu.Lock()
	defer c.randomMu.Unlock()
	return io.ReadFull(c.options.Random, b)
}

func (c *Capture) key() (key [sha256.Size]byte, err error) {
	_, err = c.Read(key[:])
	return key, err
}

func (c *Capture) open(s *session.Session[*recorder]) *recorder {
	c.alive.Add(1)
	return c.record(s)
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

// carried counts what has passed.
func (c *Capture) carried(e carry.End) {
	c.metrics.inFlight.Dec()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += e.RequestBytes + e.ReplyBytes
}

// Arrive decides what is observed of a request. It is the only call of the carrying side that takes the lock of the registry.
func (c *Capture) Arrive(a *carry.Arrival) carry.Course {
	c.mu.Lock()
	c.seen++
	c.mu.Unlock()
	c.metrics.inFlight.Inc()
	format, ok := canon.FormatOf(a.Method, a.Path)
	wish := strings.ToLower(strings.TrimSpace(a.Header.Get(captureHeader)))
	switch {
	case !ok:
		c.leave(journal.ReasonEndpoint)
		return carry.Course{Exchange: passing{c}}
	case wish == "off", c.options.Opted && wish != "on" && a.Session == "":
		c.leave(journal.ReasonOptOut)
		return carry.Course{Exchange: passing{c}}
	}
	x := &exchange{
		c: c, format: format, at: a.At, suspense: c.suspense(), coding: a.Header.Get("Content-Encoding"),
		head:  session.Head{Session: a.Session, Agent: a.Agent, Header: a.Header, RemoteAddr: a.RemoteAddr},
		final: isFinal(a.Header),
	}
	id, named := session.OfHead(x.head, c.options.SessionHeader)
	if !named {
		x.unnamed = true
		x.client = c.clients.Identity(x.head)
	}
	if c.options.Linear && !named && c.options.DropUnattributed {
		c.leave(journal.ReasonOptOut)
		return carry.Course{Exchange: passing{c}}
	}
	if named && !c.options.Linear {
		if err := x.join(id); err != nil {
			c.leave(journal.HoleInternal)
			return carry.Course{Exchange: passing{c}}
		}
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
	x.mu.Lock()
	p := x.prompt
	x.mu.Unlock()
	id, ok := session.Identity{}, false
	if p.canon != nil {
		id, ok = session.OfBody(p.canon)
	}
	if !ok {
		if c.options.DropUnattributed {
			c.leave(journal.ReasonOptOut)
			return
		}
		id = x.client
	}
	if err := x.join(id); err != nil {
		c.leave(journal.HoleInternal)
	}
}

// leave counts a request that belongs to no session.
func (c *Capture) leave(why journal.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.NotRecorded[why]++
	c.metrics.left(why, 1)
}

// unwritten counts the requests of a session without a journal.
func (c *Capture) unwritten(n int) {
	if n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.Sessions++
	c.total.Incomplete++
	c.total.NotRecorded[journal.HoleJournal] += n
	c.metrics.left(journal.HoleJournal, n)
}

// unrecorded says that a session is not recorded, once a minute.
func (c *Capture) unrecorded(trace string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Unix(0, c.options.Now()); c.said.IsZero() || now.Sub(c.said) >= time.Minute {
		c.said = now
		c.options.Log.Error("a session is not recorded", "trace", trace, "reason", string(journal.HoleJournal), "error", err)
	}
}

// finished makes a trace of a journal that is complete. Requests that the journal lacks could not be written.
func (c *Capture) finished(trace string, requests int) {
	result, err := finish.Finish(c.ctx, c.folder, trace)
	if err != nil {
		c.options.Log.Error("a journal could not be finished: agentx capture finish does it later", "trace", trace, "error", err)
		result = finish.Result{Trace: trace, Incomplete: true}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.Add(result)
	lacking := requests - result.Requests
	if lacking > 0 {
		c.total.NotRecorded[journal.HoleJournal] += lacking
		c.metrics.left(journal.HoleJournal, lacking)
	}
	c.metrics.finished(result, err)
}

// Serve carries what comes in on traffic, and answers on admin, until ctx ends. Then it takes no more requests, waits for those
// that run, as long as options say, and finishes all sessions.
func (c *Capture) Serve(ctx context.Context, traffic, admin net.Listener) error {
	tick, stop := context.WithCancel(c.ctx)
	defer stop()
	var ticking sync.WaitGroup
	ticking.Go(func() { c.keep(tick) })
	defer ticking.Wait()
	defer stop()
	server, control := c.proxy.Server(), &http.Server{Handler: c.admin(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: nil}
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(traffic) }()
	go func() { failed <- control.Serve(admin) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	case <-c.folder.Context().Done():
		err = context.Cause(c.folder.Context())
	}
	return errors.Join(err, c.shutDown(server), control.Close())
}

// shutDown ends the traffic, then the sessions, then the workers.
func (c *Capture) shutDown(server *http.Server) error {
	drain, stop := context.WithTimeout(context.WithoutCancel(c.ctx), c.options.Drain)
	defer stop()
	if server.Shutdown(drain) != nil {
		c.proxy.Abort()
		_ = server.Close()
	}
	c.pool.idle()
	c.sessions.Shutdown(true, c.options.Now())
	c.alive.Wait()
	c.pool.close()
	return c.folder.Close()
}

// keep syncs journals, sweeps sessions and looks at the disk, until ctx ends.
func (c *Capture) keep(ctx context.Context) {
	every := c.options.Sync
	if every == 0 {
		every = time.Second
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.folder.Sync()
		c.sessions.Sweep(c.options.Now())
		if c.options.Free != nil {
			free, known := c.options.Free()
			c.full.Store(known && free < c.options.Limits.DiskFree)
		}
	}
}

// Summary is what a capture came to.
type Summary struct {
	Sessions    int                    `json:"sessions"`
	Traces      int                    `json:"traces"`
	Requests    int                    `json:"requests"`
	Recorded    int                    `json:"recorded"`
	NotRecorded map[journal.Reason]int `json:"not_recorded"`
	Marks       map[string]int         `json:"marks"`
	Incomplete  int                    `json:"incomplete"`
	Bytes       int64                  `json:"bytes_carried"`
	Added       map[string]Quantiles   `json:"added"` // seconds, by stage
	Out         string                 `json:"out"`
}

// Quantiles of a time, in seconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Summary returns what the capture came to. Call it after Serve.
func (c *Capture) Summary() Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Summary{
		Sessions: c.total.Sessions, Traces: c.total.Traces, Requests: c.seen, Recorded: c.total.Recorded, NotRecorded: c.total.NotRecorded,
		Marks: c.total.Marks, Incomplete: c.total.Incomplete, Bytes: c.bytes, Added: c.metrics.quantiles(), Out: c.options.Dir,
	}
}

// String returns a line for people.
func (s Summary) String() string {
	left := 0
	for _, n := range s.NotRecorded {
		left += n
	}
	return fmt.Sprintf("%d requests of %d sessions: %d recorded in %d traces, %d not", s.Requests, s.Sessions, s.Recorded, s.Traces, left)
}
