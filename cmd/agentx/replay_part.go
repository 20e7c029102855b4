package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/report/live"
	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/meet"
	"github.com/agentx/agentx/replay/merge"
)

// partFlags are --part, --start-at and the flags of a meeting: which part of a load this client plays, and when it begins.
type partFlags struct {
	value   partValue
	startAt string
	meet    meetFlags
}

// rows are the settings of parts and of their meeting.
func (f *partFlags) rows() []settings.Setting {
	return append([]settings.Setting{
		{Name: "part", Group: settings.Load, Plain: true, Kind: partKind, Default: partValue{}, To: &f.value, Help: "I/N: play part I (0 to N-1) of a load that N clients play together: lanes I, I+N, ... of --concurrency, and that share of --requests, --trees and --rate; the results go to part-0000I-of-0000N in --out; auto: take I and N from Slurm, an Indexed Job with AGENTX_PARTS, Open MPI or torchrun (doc/spec/cluster.md)"},
		{Name: "start-at", Group: settings.Load, Plain: true, Kind: settings.AnyText, Default: "", To: &f.startAt, Help: "time of the machine's clock at which the first phase begins, such as 2026-11-23T08:30:00Z; at most 24 h ahead"},
	}, f.meet.rows()...)
}

// partValue is the value of --part.
type partValue struct {
	replay.Part
	auto bool // the environment says which part
}

// partPattern matches values of --part.
const partPattern = "^([0-9]+/[1-9][0-9]*|auto)$"

// partKind is the kind of --part: I/N or auto.
var partKind = settings.Kind{
	Want: "I/N, a part from 0 to N-1 and the number of parts, or auto", Words: []string{auto, "0/"}, Type: "string", Tags: []string{settings.Text},
	Schema: map[string]any{"type": "string", "pattern": partPattern},
	Read: func(text string) (any, bool) {
		v, err := parsePart(text)
		return v, err == nil && text != ""
	},
	Why: func(text string) error {
		_, err := parsePart(text)
		return err
	},
}

func (v partValue) String() string {
	switch {
	case v.auto:
		return auto
	case v.IsSet():
		return v.Part.String()
	}
	return ""
}

// parsePart reads I/N or auto. The empty text means that the load has no parts.
func parsePart(text string) (v partValue, err error) {
	if text == "" || text == auto {
		return partValue{auto: text == auto}, nil
	}
	p, err := replay.ParsePart(text)
	if err != nil {
		return v, err
	}
	return partValue{Part: p}, nil
}

// checkPart adds errors of settings that contradict --part.
func (f *replayFlags) checkPart(o *replay.Options) {
	if !o.Part.IsSet() {
		return
	}
	flag := f.named("part")
	shown := fmt.Sprintf("%s %v", flag, f.part.value)
	if f.part.value.auto {
		shown += fmt.Sprintf(" (part %v)", o.Part)
	}
	switch {
	case f.auto.auto != nil:
		f.add("%s and %s %s: parts do not search: leave one of them out", shown, f.named("concurrency"), f.auto.auto.text)
	case len(f.auto.counts) > 1:
		f.add("%s and %s %s: the parts play one load: want one number of lanes", shown, f.named("concurrency"), f.auto.lanes)
	}
	if f.repeat > 1 {
		f.add("%s and %s %d: the parts play one load, once: leave one of them out", shown, f.named("repeat"), f.repeat)
	}
	if err := o.Part.CheckOut(o.Out); err != nil && !o.UniqueOut {
		f.add("%s: %w", shown, err)
	}
	if o.Part.Of > 1 && f.drawsSeed() {
		f.add("%s and %s: the scenario would draw another seed for each part: want --seed N, the same for all", shown, f.named("scenario"))
	}
}

// applyPart resolves --part, --start-at and --meet, from the environment with --part auto.
func (f *replayFlags) applyPart(o *replay.Options) {
	f.applyStartAt(o, time.Now())
	o.Part = f.part.value.Part
	if f.part.value.auto && !f.printConfig {
		part, err := replay.PartOfEnvironment(os.LookupEnv)
		if err != nil {
			f.add("%s %v: %w", f.named("part"), f.part.value, err)
		}
		o.Part = part
	}
	f.applyMeeting(o)
}

// applyStartAt reads the time of --start-at, which must lie in the next 24 hours.
func (f *replayFlags) applyStartAt(o *replay.Options, now time.Time) {
	if f.part.startAt == "" {
		return
	}
	at, err := time.Parse(time.RFC3339Nano, f.part.startAt)
	wrong := ""
	switch in := at.Sub(now); {
	case err != nil:
		wrong = "want a time such as " + now.UTC().Add(time.Minute).Format(time.RFC3339)
	case in <= 0:
		wrong = fmt.Sprintf("%v ago by the clock of this machine: want a later time", -in.Round(time.Millisecond))
	case in > replay.MaxStartIn:
		wrong = fmt.Sprintf("%v from now: want at most %v", in.Round(time.Second), replay.MaxStartIn)
	case f.several() || f.repeat > 1:
		wrong = "the runs of a list cannot all begin then: want one run"
	default:
		o.StartAt = at
		return
	}
	f.set.Refuse("start-at")
	f.add("%s %s: %s", f.named("start-at"), f.part.startAt, wrong)
}

// meetFlags are --meet and --meet-timeout: where the parts of a load meet, and how long they wait for each other.
type meetFlags struct {
	address string // "": with --part auto from the environment, else there is no meeting; none: no meeting
	timeout time.Duration
}

// rows are the settings --meet and --meet-timeout.
func (f *meetFlags) rows() []settings.Setting {
	return []settings.Setting{
		{Name: "meet", Group: settings.Load, Plain: true, Kind: settings.AnyText, Default: "", To: &f.address, Help: "HOST:PORT of part 0, the same for all parts: there they meet, begin each phase and end together, and part 0 shows the whole load; none: each part begins on its own (default with --part auto: the address that Slurm or torchrun give; AGENTX_MEET_TOKEN has the token)"},
		{Name: "meet-timeout", Group: settings.Load, Plain: true, Kind: settings.Longer, Default: meet.DefaultTimeout, To: &f.timeout, Help: "longest wait for all parts to meet"},
	}
}

// tokenVariable holds the token that all parts of a load know.
const tokenVariable = "AGENTX_MEET_TOKEN"

// applyMeeting finds the address of the meeting, from the environment with --part auto, and adds errors of it.
func (f *replayFlags) applyMeeting(o *replay.Options) {
	m := &f.part.meet
	flag := f.named("meet")
	switch {
	case m.address == "none" || f.printConfig && m.address == "":
		m.address = ""
		return
	case m.address == "" && (!f.part.value.auto || o.Part.Of < 2 || f.part.startAt != ""):
		return
	case m.address == "":
		address, err := meet.AddressOfEnvironment(os.LookupEnv)
		if err != nil {
			f.add("%s %v: %w", f.named("part"), &f.part.value, err)
		}
		m.address = address
		return
	case !o.Part.IsSet() && !f.part.value.auto && !f.set.Refused("part"):
		f.add("%s %s: --part is missing: say which part of the load this is", flag, m.address)
	}
	host, port, err := net.SplitHostPort(m.address)
	if n, portErr := strconv.Atoi(port); err != nil || portErr != nil || host == "" || n < 1 || n > 65535 {
		f.add("%s %s: want HOST:PORT, as all parts reach part 0, with a port from 1 to 65535", flag, m.address)
	}
}

// warnOfNoMeeting warns if this part begins on its own, because it has neither a meeting nor a start time.
func (f *replayFlags) warnOfNoMeeting(cmd *cobra.Command, o *replay.Options) {
	if o.Part.Of > 1 && f.part.meet.address == "" && o.StartAt.IsZero() {
		printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: warning: part %v begins on its own, and so do the others: --meet HOST:PORT lets all begin and end together, --start-at TIME begin", o.Part))
	}
}

// join waits until all parts have met, and returns a context that ends with the load. The state of part 0 then gets the figures of all
// parts. Without --meet it returns the context of the command. The caller must call leave.
func (m *meetFlags) join(cmd *cobra.Command, o *replay.Options, p *progress, state *live.State) (context.Context, error) {
	if m.address == "" {
		return cmd.Context(), nil
	}
	about := meet.Options{
		Address: m.address, Token: os.Getenv(tokenVariable), Timeout: m.timeout, Member: memberOf(o),
		Notice: func(text string) { p.say("agentx: " + text) },
		Warn:   func(text string) { p.say("agentx: warning: " + text) },
	}
	if o.Part.Number > 0 {
		state.KeepGains()
		about.Gain = func() json.RawMessage {
			text, _ := json.Marshal(state.TakeGain()) // numbers and words
			return text
		}
	} else {
		state.Share(o.Part.Of)
		about.Gained = func(part int, text json.RawMessage) error {
			g := new(live.Gain)
			if err := json.Unmarshal(text, g); err != nil {
				return err
			}
			return state.AddGain(part, g)
		}
		about.Left = state.Leave
	}
	meeting, err := meet.Join(cmd.Context(), about)
	if err != nil {
		return nil, endedElsewhere(err)
	}
	o.Meeting = meeting
	return meeting.Context(), nil
}

// memberOf returns what a part tells the others, which check that all parts have the same dataset and options.
func memberOf(o *replay.Options) meet.Member {
	m := meet.Member{
		Part: o.Part.Number, Of: o.Part.Of, Host: "unknown", Version: fmt.Sprintf("%s (commit %s)", o.Provenance.Version, o.Provenance.Commit), Dataset: o.Cache.Manifest.Key,
	}
	if host, err := os.Hostname(); err == nil {
		m.Host = host
	}
	for _, option := range o.Provenance.Options {
		if !slices.Contains(merge.LocalOptions, option.Name) {
			m.Options = append(m.Options, meet.Option{Name: option.Name, Value: string(option.Value)})
		}
	}
	return m
}

// leave ends a part's run in its meeting, if it has one, and tells the other parts the error of the run. It returns that error, or if another
// part has ended the load, an error that says so.
func leave(o *replay.Options, err error) error {
	if o.Meeting == nil {
		return err
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		o.Meeting.Stop(meet.Failed, strings.TrimPrefix(err.Error(), "replay: "))
	}
	o.Meeting.Close()
	if s := o.Meeting.Stopped(); s != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return endedElsewhere(s)
	}
	return err
}

// endedElsewhere returns an error of a meeting with the exit status of the part that has ended the load.
func endedElsewhere(err error) error {
	var s *meet.Stop
	if !errors.As(err, &s) {
		return err
	}
	switch s.How {
	case meet.Unequal:
		return usageError{err}
	case meet.Wedged:
		return verdictError{err}
	case meet.Interrupted:
		return interruptedError{err}
	}
	return err
}
