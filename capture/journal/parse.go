package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"time"
)

// fields are all that a line can hold.
type fields struct {
	K string `json:"k"`
	// head and model
	V, BS        int
	Trace, Canon string
	Tok, Name    string
	By           By
	Grid, Gap, I int64
	Mask         []string
	Min          int
	HolesOf      Holes `json:"holes"`
	// begin, ids, end, agent
	Q, A, PA, M, S, In int
	T, First           int64
	Via                Tier
	Tool, Sys, Base    int
	Keep, New, Media   int
	It, Ot             Kinds
	X                  Outcome
	Status, Out, API   int
	Stop               Stop
	Marks              []string
	Word, Type         string
	Calls              *int
	Result             int
	Why                string
}

// parse reads a line without its LF. It takes no line but those that append writes.
func parse(text []byte) (Entry, error) {
	if len(text) <= prefixLen || text[prefixLen-1] != ' ' {
		return nil, errors.New("no CRC, blank and JSON")
	}
	sum, err := strconv.ParseUint(string(text[:prefixLen-1]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(text[prefixLen:], castagnoli) {
		return nil, errors.New("its CRC differs")
	}
	var f fields
	if err := json.Unmarshal(text[prefixLen:], &f); err != nil {
		return nil, fmt.Errorf("its JSON: %w", err)
	}
	e, err := f.entry()
	if err != nil {
		return nil, err
	}
	if again := e.append(nil); !bytes.Equal(again[:len(again)-1], text) {
		return nil, errors.New("no line that this version writes")
	}
	return e, nil
}

// Entry returns the line that the fields make.
func (f *fields) entry() (Entry, error) {
	switch f.K {
	case "head":
		return f.head()
	case "model":
		return Model{int(f.I), f.Name}, oneOf("name of a model", plainName.MatchString(f.Name))
	case "begin":
		p, err := f.place()
		return Begin{f.Q, f.T, p}, errors.Join(err, f.numbers())
	case "ids":
		return f.ids()
	case "hole":
		return Hole{f.Q, Reason(f.Why)}, errors.Join(f.numbers(), oneOf("why", slices.Contains(holes, Reason(f.Why))))
	case "end":
		return f.end()
	case "agent":
		return Agent{f.A, AgentType(f.Type), f.Result},
			errors.Join(f.numbers(), oneOf("type", f.Type == "" || slices.Contains(agentTypes, AgentType(f.Type))))
	case "final":
		return Final{Why(f.Why)}, oneOf("why", slices.Contains(whys, Why(f.Why)))
	}
	return nil, fmt.Errorf("kind %q", f.K)
}

// oneOf returns an error about a word that is not of its list or pattern.
func oneOf(what string, is bool) error {
	if !is {
		return fmt.Errorf("%s: not of its list", what)
	}
	return nil
}

// Bounds of the numbers of a line.
const (
	MaxRequests = 1 << 26 // of a session
	MaxTokens   = 1 << 24 // of a prompt or an answer, as traces have it
	MaxBlocks   = 1 << 26 // of a session
	maxMillis   = 1 << 40 // 34 years
	maxAgents   = 1 << 20
	maxStatus   = 999
)

// numbers returns an error about a number outside its bounds.
func (f *fields) numbers() error {
	for _, n := range []struct {
		name        string
		v           int64
		least, most int64
	}{
		{"q", int64(f.Q), 0, MaxRequests}, {"a", int64(f.A), 0, maxAgents}, {"pa", int64(f.PA), 0, maxAgents}, {"m", int64(f.M), 0, maxAgents},
		{"s", int64(f.S), 0, 1}, {"in", int64(f.In), 0, MaxTokens}, {"t", f.T, 0, maxMillis}, {"first", f.First, -1, maxMillis},
		{"via", int64(f.Via), 0, int64(TierLinkage)}, {"tool", int64(f.Tool), 0, MaxTokens}, {"sys", int64(f.Sys), 0, MaxTokens},
		{"base", int64(f.Base), -1, MaxRequests}, {"keep", int64(f.Keep), 0, MaxTokens}, {"new", int64(f.New), 0, MaxTokens},
		{"media", int64(f.Media), 0, MaxTokens}, {"it", int64(f.It), 0, allKinds}, {"ot", int64(f.Ot), 0, allKinds},
		{"status", int64(f.Status), 0, maxStatus}, {"out", int64(f.Out), 0, MaxTokens}, {"api", int64(f.API), 0, 1<<31 - 1},
		{"stop", int64(f.Stop), 0, int64(stops) - 1}, {"result", int64(f.Result), 0, MaxRequests},
	} {
		if n.v < n.least || n.v > n.most {
			return fmt.Errorf("%s %d: want %d to %d", n.name, n.v, n.least, n.most)
		}
	}
	return nil
}

func (f *fields) head() (Entry, error) {
	h := Head{Trace: f.Trace, BlockSize: f.BS, Canon: f.Canon, Tokenizer: f.Tok, By: f.By}
	h.Export = Export{Holes: f.HolesOf, MinRequests: f.Min}
	if max(f.Grid, f.Gap) > maxMillis || min(f.Grid, f.Gap) < 0 {
		return h, fmt.Errorf("grid %d, gap %d: out of bounds", f.Grid, f.Gap)
	}
	h.Export.Grid, h.Export.MaxGap = time.Duration(f.Grid)*time.Millisecond, time.Duration(f.Gap)*time.Millisecond
	bits, err := setOf(MaskNames, f.Mask)
	h.Export.Masks = Masks(bits)
	if f.V != Version {
		return h, fmt.Errorf("version %d: this agentx reads %d", f.V, Version)
	}
	return h, errors.Join(err, h.Validate())
}

// setOf returns the set of some names. append then finds a name that is given twice, or out of order.
func setOf(all, names []string) (set uint8, err error) {
	for _, name := range names {
		k := slices.Index(all, name)
		if k < 0 {
			return 0, fmt.Errorf("%.40q: want one of %v", name, all)
		}
		set |= 1 << k
	}
	return set, nil
}

// Validate returns what is wrong with a head.
func (h Head) Validate() error {
	switch {
	case !traceName.MatchString(h.Trace):
		return fmt.Errorf("trace %.40q: want cap- and 8 hexadecimal digits", h.Trace)
	case h.BlockSize < 1 || h.BlockSize > MaxTokens:
		return fmt.Errorf("block size %d: want 1 to %d tokens", h.BlockSize, MaxTokens)
	case !plainName.MatchString(h.Canon):
		return fmt.Errorf("canon %.40q: want %s", h.Canon, NamePattern)
	case !plainName.MatchString(h.Tokenizer):
		return fmt.Errorf("tokenizer %.40q: want %s", h.Tokenizer, NamePattern)
	case !slices.Contains(ways, h.By):
		return fmt.Errorf("by %.40q: want one of %s", h.By, quotedList(ways))
	}
	return h.Export.Validate()
}

func (f *fields) place() (Place, error) {
	if f.A == 0 {
		return Place{}, nil
	}
	if f.Via < TierHeader || f.A == f.PA {
		return Place{}, fmt.Errorf("agent %d: no evidence, or its own parent", f.A)
	}
	return Place{f.A, f.PA, f.Via}, nil
}

func (f *fields) ids() (Entry, error) {
	v := IDs{f.Q, f.M, f.S == 1, f.In, f.Tool, f.Sys, f.Base, f.Keep, f.New, f.It, f.Media, nil}
	if f.A != 0 {
		p, err := f.place()
		if err != nil {
			return v, err
		}
		v.Moved = &p
	}
	return v, f.numbers()
}

func (f *fields) end() (Entry, error) {
	bits, err := setOf(markNames, f.Marks)
	v := End{f.Q, f.T, f.First, f.X, f.Status, f.Out, f.Ot, 0, Mark(bits), f.Word, usualCalls(f.Ot), f.API, Reason(f.Why)}
	err = errors.Join(err, f.numbers(), oneOf("x", slices.Contains(outcomes, f.X)), oneOf("word", f.Word == "" || slices.Contains(stopWords, f.Word)),
		oneOf("why", f.Why == "" || f.X == Aborted && slices.Contains(holes, Reason(f.Why))))
	if err != nil {
		return v, err
	}
	if v.Stop = f.Stop; v.Word == "" {
		v.Word = v.Stop.String()
	}
	if f.Calls != nil {
		if v.Calls = *f.Calls; v.Calls < 0 || v.Calls > MaxTokens {
			return v, fmt.Errorf("calls %d: want 0 to %d", v.Calls, MaxTokens)
		}
	}
	return v, nil
}
