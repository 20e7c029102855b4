package rows

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// hash returns what stands for a uuid, 0 for none.
func hash(v content.Raw) xxh3.Uint128 {
	if !v.IsString() {
		return xxh3.Uint128{}
	}
	return xxh3.Hash128(v.Bytes())
}

// ofAgent reports whether a row has another one, of an agent.
func (x *line) ofAgent() bool {
	return string(x[kType].Bytes()) == "progress" && string(x[kDataType].Bytes()) == "agent_progress"
}

// classify returns what a row is in a prompt, and what is counted about it.
func (x *line) classify() (Kind, string) {
	switch name := x[kType].Bytes(); {
	case len(name) == 0:
		return Link, "unknown_type:line"
	case string(name) == "user" || string(name) == "assistant":
		switch {
		case !x[kMessage].IsObject():
			return Link, "no_message"
		case string(name) == "user":
			return User, ""
		case x[kFailed].IsTrue() || string(x[kModel].Bytes()) == "<synthetic>":
			return Link, "api_error"
		}
		return Assistant, ""
	case string(name) == "system":
		switch sub := x[kSubtype].Bytes(); {
		case string(sub) == "compact_boundary":
			return Compact, ""
		case string(sub) == "microcompact_boundary":
			return Clear, "microcompact"
		case len(sub) == 0:
			return Link, "ignored:system"
		default:
			return Link, "ignored:system/" + content.Name(sub)
		}
	case x.ofAgent():
		return Link, "agent_progress"
	case linking[string(name)] || ignored[string(name)]:
		return Link, "ignored:" + string(name)
	default:
		return Link, "unknown_type:" + content.Name(name)
	}
}

// maxWarnings is how many names of unknown types are counted by themselves.
const maxWarnings = 1 << 10

// keep appends a row with what it says.
func (r *Log) keep(w Row, x *line, warning string) {
	f := &r.Files[w.File]
	if r.warnings.Len() >= maxWarnings && !r.warnings.Has(warning) && warning != "" {
		warning = "unknown_type:other"
	}
	w.warning = uint16(r.warnings.Number([]byte(warning)))
	if at, ok := content.Instant(x[kTimestamp]); ok {
		if w.At = at; f.First == text.NoTime || at < f.First {
			f.First = at
		}
		f.Last, f.at = max(f.Last, at), at
	} else {
		w.At, w.Flags = f.at, w.Flags|NoTime
	}
	n := int32(len(r.Rows))
	w.body = uint32(len(r.bodies))
	switch w.Kind {
	case User:
		r.putUser(&w, x)
	case Assistant:
		r.putReply(x)
	case Compact:
		if s := (Splice{Boundary: n, Anchor: hash(x[kAnchor]), Kept: []xxh3.Uint128{hash(x[kHead]), hash(x[kTail])}, Segment: true}); x[kHead] != nil {
			r.Splices = append(r.Splices, s)
		} else if s := (Splice{Boundary: n, Anchor: hash(x[kKeptAnchor])}); x[kKept] != nil {
			_ = x[kKept].Array(func(v content.Raw) error { s.Kept = append(s.Kept, hash(v)); return nil })
			r.Splices = append(r.Splices, s)
		}
	case Clear:
		c := Clearing{Row: n}
		_ = x[kCleared].Array(func(v content.Raw) error { c.Calls = append(c.Calls, r.Text(v)); return nil })
		r.Clearings = append(r.Clearings, c)
	}
	r.Rows, r.IDs = append(r.Rows, w), append(r.IDs, IDs{hash(x[kUUID]), hash(x[kParent])})
	f.To = n + 1
}

// Count counts what is said about a row.
func (r *Log) Count(i int32) {
	if n := r.Rows[i].warning; n != 0 {
		r.Data.Warn(r.warnings.Name(int32(n)))
	}
	if r.Rows[i].Flags&NoTime != 0 {
		r.Data.Warn("no_timestamp")
	}
}

// putUser keeps the content of a row of the user.
func (r *Log) putUser(w *Row, x *line) {
	parts := r.Blocks(x[kContent])
	for k := range parts {
		if parts[k].Kind != text.Result || w.Flags&HasResult != 0 {
			continue
		}
		w.Flags |= HasResult
		if x[kResultAgent].IsString() {
			agent := r.chainOf(r.Chains[w.Chain].Session, r.names.Number(x[kResultAgent].Bytes()))
			r.started(agent, parts[k].ID, 3)
			if x[kResultAsync].IsTrue() || x[kResultTask] != nil || string(x[kResultStatus].Bytes()) == "async_launched" {
				r.Chains[agent].Async = true
			}
		}
	}
	if x[kMeta].IsTrue() {
		w.Flags |= IsMeta
	}
	if x[kSummary].IsTrue() {
		w.Flags |= IsSummary
	}
	r.bodies = text.PackParts(r.bodies, parts)
}

// started notes which call started an agent, unless a better source has said it.
func (r *Log) started(agent int32, call text.Text, source uint8) {
	if c := &r.Chains[agent]; call != 0 && source > c.source {
		c.Call, c.source = call, source
	}
}

// Said is what a row of the assistant has.
type Said struct {
	Key    uint64 // of the reply
	Model  text.Text
	Stop   int32
	Counts [4]int32 // input, created, read, output; 0 is none, others are 1 more
	Parts  []text.Part
}

// putReply keeps a row of the assistant.
func (r *Log) putReply(x *line) {
	key := xxh3.HashSeed(x[kUUID].Bytes(), 1)
	for seed, k := range [...]int{kRequest, kID} {
		if name := x[k].Bytes(); len(name) > 0 {
			key = xxh3.HashSeed(name, uint64(seed)+2)
		}
	}
	b := binary.LittleEndian.AppendUint64(r.bodies, key)
	b = binary.AppendUvarint(b, uint64(r.Text(x[kModel])))
	b = binary.AppendUvarint(b, uint64(r.names.Number(x[kStop].Bytes())))
	for _, k := range [...]int{kInput, kCreated, kRead, kOutput} {
		count := uint64(0)
		if n, ok := x[k].Int(); ok {
			count = uint64(text.Tokens(n)) + 1
		}
		b = binary.AppendUvarint(b, count)
	}
	parts := r.Blocks(x[kContent])
	for k := range parts {
		if p := &parts[k]; p.Kind == text.Call && r.Data.Store.String(p.Name) == "ExitPlanMode" {
			p.Text = r.Without(content.Raw(r.Data.Store.String(p.Text)), "plan", "planFilePath") // the client adds them for people
		}
	}
	r.bodies = text.PackParts(b, parts)
}

// Parts returns what a row of the user has.
func (r *Log) Parts(i int32) []text.Part {
	parts, _ := text.UnpackParts(r.bodies[r.Rows[i].body:])
	return parts
}

// Said returns what a row of the assistant has.
func (r *Log) Said(i int32) (s Said) {
	b := r.bodies[r.Rows[i].body:]
	s.Key, b = binary.LittleEndian.Uint64(b), b[8:]
	next := func() int32 {
		n, size := binary.Uvarint(b)
		b = b[size:]
		return int32(n)
	}
	s.Model, s.Stop = text.Text(next()), next()
	for k := range s.Counts {
		s.Counts[k] = next()
	}
	s.Parts, _ = text.UnpackParts(b)
	return s
}
