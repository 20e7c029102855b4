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
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/chain"
	"github.com/agentx/agentx/cmd/internal/capture/finish"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
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
	errDiskFull = errors.New("the disk has less free space than disk_free")
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

// key draws a key. The registry makes one session at a time.
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

// carried counts what has passed.
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
	_ = x.join(id) // it has left
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
		errs = append(errs, fmt.Errorf("session header %q: not a valid name of a header", o.SessionHeader))
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
