package main

import (
	"fmt"
	"os"
	"time"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/replay"
)

// partFlags say which part of a load that several clients play is played, and when it begins.
type partFlags struct {
	value   partValue
	startAt string
	meet    meetFlags
}

func (f *partFlags) rows() []settings.Setting {
	return append([]settings.Setting{
		{Name: "part", Group: settings.Load, Plain: true, Kind: partKind, Default: partValue{}, To: &f.value, Help: "I/N: play part I (0 to N-1) of a load that N clients play together: lanes I, I+N, ... of --concurrency, and that share of --requests, --trees and --rate; the results go to part-0000I-of-0000N in --out; auto: I and N as Slurm, an Indexed Job with AGENTX_PARTS, Open MPI or torchrun say them (doc/spec/cluster.md)"},
		{Name: "start-at", Group: settings.Load, Plain: true, Kind: settings.AnyText, Default: "", To: &f.startAt, Help: "time of the machine's clock at which the first phase begins, such as 2026-11-23T08:30:00Z; at most 24 h ahead"},
	}, f.meet.rows()...)
}

// partValue is the value of --part.
type partValue struct {
	replay.Part
	auto bool // the environment says it
}

// partPattern matches values of --part.
const partPattern = "^([0-9]+/[1-9][0-9]*|auto)$"

// partKind is the kind of --part.
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

// parsePart reads I/N or auto. An empty text is no part.
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

// checkPart adds what contradicts the part that is played.
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

// applyPart sets the part that is played, and when.
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

// applyStartAt resolves --start-at.
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
