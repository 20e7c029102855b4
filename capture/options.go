package capture

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/agentx/agentx/capture/carry"
	"github.com/agentx/agentx/capture/chain"
	"github.com/agentx/agentx/capture/journal"
)

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
		errs = append(errs, errors.New("no directory for traces"))
	}
	if o.Tokenizer == nil || o.Now == nil || o.Wall == nil || o.Random == nil || o.Log == nil {
		errs = append(errs, errors.New("no tokenizer, clock, wall clock, source of random bytes or log"))
	}
	if o.SessionHeader != "" && !httpguts.ValidHeaderFieldName(o.SessionHeader) {
		errs = append(errs, fmt.Errorf("session header %q: no header has such a name", o.SessionHeader))
	}
	l := o.Limits
	for _, c := range []struct {
		good bool
		name string
		is   any
		want string
	}{
		{o.Workers >= 1, "workers", o.Workers, "at least 1"},
		{o.Idle >= 0, "idle", o.Idle, "no negative time"}, {o.Drain >= 0, "drain", o.Drain, "no negative time"}, {o.Sync >= 0, "sync", o.Sync, "no negative time"},
		{l.Sessions >= 1, "limit sessions", l.Sessions, "at least 1"}, {l.Blocks >= 1, "limit blocks", l.Blocks, "at least 1"}, {l.Nodes >= 1, "limit nodes", l.Nodes, "at least 1"},
		{l.HeaderTimeout > 0, "limit header_timeout", l.HeaderTimeout, "more than 0"}, {l.Stall >= 0, "limit stall", l.Stall, "no negative time"},
	} {
		if !c.good {
			errs = append(errs, fmt.Errorf("%s %v: want %s", c.name, c.is, c.want))
		}
	}
	upstreams := carry.Options{Upstreams: o.Upstreams}
	errs = append(errs, upstreams.Validate(), o.Export.Validate(), chain.Options{Tokenizer: o.Tokenizer, Name: o.TokenizerName, BlockSize: o.BlockSize}.Validate())
	return errors.Join(errs...)
}
