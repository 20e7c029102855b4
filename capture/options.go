package capture

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/capture/carry"
	"github.com/agentx/agentx/capture/chain"
	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/internal/suggest"
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

// LimitNames has the names that Limits.Set takes.
var LimitNames = []string{"request_copy", "reply_copy", "copies", "queue", "sessions", "blocks", "nodes", "header_timeout", "stall", "disk_free"}

// Set sets one limit by NAME=VALUE. Bytes may have a unit (KiB, MiB, GiB).
func (l *Limits) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("limit %q: want NAME=VALUE", text)
	}
	var err error
	sizes := map[string]*int64{"request_copy": &l.RequestCopy, "reply_copy": &l.ReplyCopy, "copies": &l.Copies, "queue": &l.Queue, "disk_free": &l.DiskFree}
	counts := map[string]*int{"sessions": &l.Sessions, "blocks": &l.Blocks, "nodes": &l.Nodes}
	times := map[string]*time.Duration{"header_timeout": &l.HeaderTimeout, "stall": &l.Stall}
	switch {
	case sizes[name] != nil:
		*sizes[name], err = size(value)
	case counts[name] != nil:
		if *counts[name], err = strconv.Atoi(value); err == nil && *counts[name] < 1 {
			err = errors.New("want at least 1")
		}
	case times[name] != nil:
		if *times[name], err = time.ParseDuration(value); err == nil && *times[name] < 0 {
			err = errors.New("want no negative time")
		}
	default:
		return fmt.Errorf("limit %q: want a name as %s", name, cmp.Or(suggest.Closest(name, LimitNames), strings.Join(LimitNames, ", ")))
	}
	if err != nil {
		return fmt.Errorf("limit %s=%q: %w", name, value, err)
	}
	return nil
}

func size(text string) (int64, error) {
	unit := int64(1)
	for k, suffix := range []string{"KiB", "MiB", "GiB"} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = strings.TrimSpace(number), 1<<(10*(k+1))
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 1<<50/unit {
		return 0, errors.New("want bytes, such as 1048576 or 64MiB")
	}
	return n * unit, nil
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
	if o.Workers < 1 {
		errs = append(errs, fmt.Errorf("%d workers: want at least 1", o.Workers))
	}
	if o.Idle < 0 || o.Drain < 0 || o.Sync < 0 {
		errs = append(errs, errors.New("a negative time"))
	}
	errs = append(errs, o.Export.Validate(), chain.Options{Tokenizer: o.Tokenizer, Name: o.TokenizerName, BlockSize: o.BlockSize}.Validate())
	return errors.Join(errs...)
}
