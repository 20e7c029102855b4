package synth

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

// Lengths say how long the requests of a synthetic load are, and what they share. The zero value makes none: traces are agents' then.
type Lengths struct {
	ISL, OSL     Distribution  // tokens of the first prompt of a trace, its shared prefix included, and of each answer
	Requests     int           // how many in all; 0: Options.Traces says how many traces
	SharedPrefix int           // tokens that the prompts of a group begin with, in whole blocks
	Groups       int           // of traces that share a prefix; 0: one
	Turns        int           // of a trace; 0: one
	Gap          time.Duration // between an answer and the next turn
}

// Distribution draws whole numbers from 1 on. The zero value is none.
type Distribution struct {
	kind string // "", "constant", "normal", "lognormal", "uniform" or "file"
	a, b float64
	rows []int  // of a file
	file string // draws from one file take the same row, so that two columns stay together
}

const (
	normal    = "normal"
	lognormal = "lognormal"
	uniform   = "uniform"
)

// ParseDistribution reads N, normal:MEAN,SD, lognormal:MEAN,SD, uniform:A-B, or the name of a CSV file, of which it takes the named column:
// the only one, or the first where there is no header.
func ParseDistribution(text, column string) (Distribution, error) {
	wrong := fmt.Errorf("%s: want N, normal:MEAN,SD, lognormal:MEAN,SD, uniform:A-B or a FILE.csv, of 1 to %d tokens", text, trace.MaxTokens)
	if strings.HasSuffix(text, ".csv") {
		rows, err := readColumn(text, column)
		return Distribution{kind: "file", rows: rows, file: text}, err
	}
	kind, rest, named := strings.Cut(text, ":")
	separator := ","
	switch {
	case !named:
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > trace.MaxTokens {
			return Distribution{}, wrong
		}
		return Distribution{kind: "constant", a: float64(n)}, nil
	case kind == uniform:
		separator = "-"
	case kind != normal && kind != lognormal:
		return Distribution{}, wrong
	}
	first, second, _ := strings.Cut(rest, separator)
	a, errA := strconv.ParseFloat(first, 64)
	b, errB := strconv.ParseFloat(second, 64)
	d := Distribution{kind: kind, a: a, b: b}
	if errA != nil || errB != nil || !(a >= 1 && a <= trace.MaxTokens && b >= 0 && b <= trace.MaxTokens) || kind == uniform && b < a {
		return Distribution{}, wrong
	}
	return d, nil
}

// maxRows bounds the rows of a file of lengths.
const maxRows = 1 << 20

// readColumn reads a column of whole numbers. A first line with names is its header.
func readColumn(path, column string) (list []int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	at := 0
	for r := csv.NewReader(file); ; {
		fields, err := r.Read()
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		line, _ := r.FieldPos(0)
		if line == 1 {
			fields[0] = strings.TrimPrefix(fields[0], "\ufeff")
		}
		n, err := strconv.Atoi(strings.TrimSpace(fields[at]))
		if err != nil && line == 1 {
			if at = slices.Index(fields, column); at < 0 && len(fields) > 1 {
				return nil, fmt.Errorf("%s: its header has no column %s: %d others", path, column, len(fields))
			}
			at = max(0, at)
			continue
		}
		if err != nil || n < 1 || n > trace.MaxTokens {
			return nil, fmt.Errorf("%s:%d: want tokens from 1 to %d", path, line, trace.MaxTokens)
		}
		if list = append(list, n); len(list) > maxRows {
			return nil, fmt.Errorf("%s: more than %d rows", path, maxRows)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: it has no row", path)
	}
	return list, nil
}

// draw draws a number. rows has, by file, the share that decides its row.
func (d *Distribution) draw(from *draws, rows map[string]float64) int {
	v := d.a
	switch d.kind {
	case normal:
		v = d.a + float64(d.b*from.normal())
	case lognormal: // with this mean and deviation of its own, not of its logarithm
		spread := math.Log1p(d.b * d.b / (d.a * d.a))
		v = math.Exp(math.Log(d.a) - spread/2 + float64(math.Sqrt(spread)*from.normal()))
	case uniform:
		v = d.a + math.Floor(from.share()*(d.b-d.a+1))
	case "file":
		share, known := rows[d.file]
		if !known {
			share = from.share()
			rows[d.file] = share
		}
		return d.rows[int(share*float64(len(d.rows)))]
	}
	return int(min(max(1, math.Round(v)), trace.MaxTokens))
}

// normal returns a number of the standard normal distribution: Box and Muller's method.
func (d *draws) normal() float64 {
	return math.Sqrt(-2*math.Log(1-d.share())) * math.Cos(2*math.Pi*d.share())
}

// turns returns how many turns a trace has.
func (l *Lengths) turns() int { return max(1, l.Turns) }

// validate returns what is wrong with the lengths.
func (l *Lengths) validate() (wrong []error) {
	if (l.ISL.kind == "") != (l.OSL.kind == "") {
		wrong = append(wrong, errors.New("isl and osl belong together: want both"))
	}
	if l.ISL.kind == "" && (l.Requests != 0 || l.SharedPrefix != 0 || l.Groups != 0 || l.Turns != 0 || l.Gap != 0) {
		wrong = append(wrong, errors.New("isl is missing: requests, shared-prefix, groups, turns and gap are of loads that have it"))
	}
	for _, n := range [...]struct {
		name     string
		v, limit int
	}{{"requests", l.Requests, maxTraces}, {"shared-prefix", l.SharedPrefix, trace.MaxTokens}, {"groups", l.Groups, maxTraces}, {"turns", l.Turns, maxTurns}} {
		if n.v < 0 || n.v > n.limit {
			wrong = append(wrong, fmt.Errorf("%s %d: want 0 to %d", n.name, n.v, n.limit))
		}
	}
	if l.Gap < 0 || l.Gap > 1000*time.Hour {
		wrong = append(wrong, fmt.Errorf("gap %s: want 0s to 1000h", l.Gap))
	}
	if l.ISL.kind == "constant" && int(l.ISL.a) <= l.SharedPrefix {
		wrong = append(wrong, fmt.Errorf("shared-prefix %d: want less than isl, %d, of which it is a part", l.SharedPrefix, int(l.ISL.a)))
	}
	return wrong
}

// maxTurns bounds the turns of a trace.
const maxTurns = 10_000

// Blocks of the traces of a load whose traces share a prefix have numbers of their own from here on, perTrace to each.
const (
	ownBlocks = 1 << 32
	perTrace  = 1 << 20
)

// lengthsOnly makes the trace of a number: prompts of drawn lengths, each turn behind all before it and the answers to them.
func (l *Lengths) lengthsOnly(d *draws, number int) (*weka.Recording, error) {
	rows := map[string]float64{}
	isl := max(l.ISL.draw(d, rows), l.SharedPrefix+1)
	turns := l.turns()
	if l.Requests > 0 {
		turns = min(turns, l.Requests-number*turns)
	}
	r := &weka.Recording{BlockSize: blockSize, ID: fmt.Sprintf("row-%06d", number+1), Global: l.SharedPrefix >= blockSize}
	shared, group, own := l.SharedPrefix/blockSize, number%max(1, l.Groups), int64(0)
	if r.Global {
		own = ownBlocks + int64(number)*perTrace
	}
	in := isl
	for k := range turns {
		out := l.OSL.draw(d, rows)
		blocks := in / blockSize
		if in > trace.MaxTokens || blocks > perTrace {
			return nil, fmt.Errorf("trace %s: the prompt of turn %d has %d tokens: more than %d: fewer turns, or shorter ones", r.ID, k+1, in, trace.MaxTokens)
		}
		q := weka.RecordedRequest{T: weka.Millis(int64(k) * l.Gap.Milliseconds()), Streamed: true, Model: "synthetic", In: in, Out: out, TTFT: weka.Unknown, ThinkTime: weka.Unknown,
			InputTypes: inputOfUsers, OutputTypes: []string{"text"}, Stop: "end_turn"}
		if k > 0 {
			q.ThinkTime = weka.Millis(l.Gap.Milliseconds())
		}
		first := own
		if r.Global {
			q.IDs = trace.IDs{Runs: []trace.Run{{First: int64(group) * perTrace, N: shared}}, Len: shared}
			first += int64(shared)
		}
		if n := blocks - q.IDs.Len; n > 0 {
			q.IDs.Runs, q.IDs.Len = append(q.IDs.Runs, trace.Run{First: first, N: n}), blocks
		}
		r.Entries = append(r.Entries, weka.RecordedEntry{RecordedRequest: q})
		in += out + max(1, isl/l.turns())
	}
	return r, nil
}
