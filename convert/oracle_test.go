package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
)

// stricter lists the refusals of agentx where AIPerf accepts: numbers as strings, numbers too large to send, and names of two
// sessions. AIPerf's result for such a trace is not compared.
var stricter = regexp.MustCompile(`want number, found ["tf]|cannot have a negative length|outside the signed 64-bit range|larger than \d+|beyond 1e\+15|want 1 to \d+ tokens|a second session of the name`)

// Random traces, valid and damaged, are accepted or refused as by AIPerf 0.13.0, which runs beside, and give the same bytes of
// every message. ORACLE_TRACES is their number, ORACLE_SEED the seed.
func TestOracle(t *testing.T) {
	python := os.Getenv("ORACLE_PYTHON")
	if python == "" {
		t.Skip("needs an installed AIPerf: make test-oracle")
	}
	n, start := number(t, "ORACLE_TRACES", 400), number(t, "ORACLE_SEED", 1)
	for _, seed := range []uint64{42, math.MaxUint64} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rows := make([]string, n)
			for k := range rows {
				rows[k] = newInvention(uint64(start), seed+uint64(k)).row(fmt.Sprintf("t%05d", k))
			}
			o := options(t)
			o.Corpus, o.Tokenizer = filepath.Join(t.TempDir(), "coding.u32le"), "o200k_base"
			o.Rules, o.Placement = rules.AIPerf(), rules.Placement{Backend: rules.SHA256MT, Seed: int64(seed), Stream: rules.CodingStream}
			compareVerdicts(t, rows, ask(t, python, seed, o.Corpus, rows), verdicts(t, o, rows))
		})
		n /= 8
	}
	t.Run("cases", func(t *testing.T) {
		_, rows, want := releaseCases(t)
		for k, got := range ask(t, python, 42, filepath.Join(t.TempDir(), "coding.u32le"), rows) {
			got.Refused, _, _ = strings.Cut(got.Refused, ":")
			assert.Equal(t, want[k], got, rows[k])
		}
	})
}

// compareVerdicts compares the results of agentx with those of AIPerf.
func compareVerdicts(t *testing.T, rows []string, theirs, ours []verdict) {
	var equal, refused, ourOwn int
	for k, got := range ours {
		want := theirs[k]
		switch {
		case stricter.MatchString(got.Refused):
			ourOwn++
		case got.Refused != "" && want.Refused != "":
			refused++
		default:
			got.ID = ""
			if assert.Equal(t, want, got, "trace %d: %s", k, rows[k]) {
				equal++
			}
		}
	}
	t.Logf("%d traces: %d equal, %d refused by both, %d refused here alone, on purpose", len(rows), equal, refused, ourOwn)
	assert.Greater(t, equal, len(rows)/3, "too few to say anything")
}

// ask runs AIPerf on traces. It also writes the prompt corpus of the seed.
func ask(t *testing.T, python string, seed uint64, corpus string, rows []string) []verdict {
	cmd := exec.CommandContext(t.Context(), python, "../contrib/aiperf/check.py", "--seed", strconv.FormatUint(seed, 10),
		"--ranks", os.Getenv("ORACLE_RANKS"), "--corpus", corpus, "--warp", strconv.Itoa(warpCap))
	cmd.Stdin = strings.NewReader(strings.Join(rows, "\n") + "\n")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	require.NoError(t, err, problems.String())
	var list []verdict
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		list = append(list, decode[verdict](t, line))
	}
	require.Len(t, list, len(rows), problems.String())
	return list
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise int) int {
	if os.Getenv(name) == "" {
		return otherwise
	}
	n, err := strconv.Atoi(os.Getenv(name))
	require.NoError(t, err)
	return n
}

// invention generates a trace.
type invention struct {
	*rand.Rand
	lists [][]int // of ids, to go on from
	next  int     // id that is new
}

func newInvention(a, b uint64) *invention {
	return &invention{Rand: rand.New(rand.NewPCG(a, b))}
}

// one returns true with probability 1/n.
func (v *invention) one(n int) bool { return v.IntN(n) == 0 }

func pick[T any](v *invention, list ...T) T { return list[v.IntN(len(list))] }

type object = map[string]any

// row returns a trace as one line, sometimes damaged.
func (v *invention) row(id string) string {
	tr := object{"id": id + pick(v, "", "", "", "", "::sa:b", ":fa:000"), "models": []any{"m"}, "hash_id_scope": "local", "requests": v.requests(),
		"block_size": pick(v, 64, 64, 64, 64, 16, 1, 100)}
	if v.one(3) {
		tr["tool_tokens"], tr["system_tokens"] = pick(v, 0, 10, 60, 200), pick(v, 0, 4, 68)
	}
	for v.one(4) {
		v.damage(tr)
	}
	text, err := json.Marshal(tr)
	if err != nil {
		panic(err)
	}
	if v.one(4) {
		return asDoubles.Replace(string(text))
	}
	return string(text)
}

// asDoubles makes two ids one for who reads numbers with a point as doubles.
var asDoubles = strings.NewReplacer("[1,", "[9007199254740993.0,", "[1]", "[9007199254740993.0]", ",2,", ",9007199254740992,", ",2]", ",9007199254740992]")

// requests returns the requests of a trace, with subagents.
func (v *invention) requests() []any {
	list := []any{}
	at := pick(v, 0.0, 0, 0, 3, 1e6)
	for k := range v.IntN(10) {
		at += v.gap()
		if v.one(5) {
			list = append(list, v.subagent(k, at))
			continue
		}
		list = append(list, v.request(at))
	}
	return list
}

// gap returns the time to the next request: 0, one that is decided by rounding, a long one, or rarely a negative one.
func (v *invention) gap() float64 {
	return pick(v, 0, 5e-7, 1e-6, 0.25, 1, 1, 2.5, 7.123, 7, 61, 4000, -0.5)
}

func (v *invention) request(at float64) object {
	ids := v.ids()
	r := object{"t": at, "type": "n", "model": pick(v, "m", "m", "m", "m", "w"), "hash_ids": ids,
		"in": max(0, 64*len(ids)+pick(v, 0, 0, 5, 63, 130, -1, -64, 20000)), "out": pick(v, 0, 1, 30, 64, 65, 100, 500, 5000)}
	v.maybe(r, "api_time", 0, 0.1, 1, 3, 50, nil)
	v.maybe(r, "think_time", 0, 0.5, 100, nil)
	v.maybe(r, "input_types", []any{}, []any{"text"}, []any{"text", "tool_result"})
	v.maybe(r, "stop", "", "tool_use", "end_turn")
	if v.one(3) {
		r["type"] = "s"
		v.maybe(r, "ttft", 0.25, nil)
	}
	return r
}

// maybe sometimes sets a key.
func (v *invention) maybe(o object, key string, values ...any) {
	if v.one(2) {
		o[key] = pick(v, values...)
	}
}

// ids returns the hash ids of a prompt: an earlier list, the same, cut, extended or changed at its end; a new list; or none.
func (v *invention) ids() []int {
	list := []int{}
	if len(v.lists) > 0 && !v.one(8) {
		from := v.lists[max(0, len(v.lists)-1-v.IntN(pick(v, 1, 1, 4)))%len(v.lists)]
		list = append(list, from[:max(0, len(from)-pick(v, 0, 0, 0, 1, 2))]...)
	}
	for range pick(v, 0, 1, 1, 2, 3) {
		v.next++
		list = append(list, v.next)
	}
	if v.one(12) {
		return []int{}
	}
	v.lists = append(v.lists, list)
	return list
}

func (v *invention) subagent(k int, at float64) object {
	apart := &invention{Rand: v.Rand, next: 1000 * (k + 1)} // a context of its own, with ids of the trace
	if v.one(3) {
		apart.lists = v.lists
	}
	clock := pick(v, 0, at, at+0.5)
	inner := []any{}
	for range v.IntN(6) {
		inner = append(inner, apart.request(clock))
		clock += v.gap()
	}
	m := object{"t": at, "type": "subagent", "agent_id": pick(v, fmt.Sprint("a", k), fmt.Sprint("a", k), "x", "x:fa:000"), "subagent_type": "e", "models": []any{},
		"status": pick(v, "completed", "async_launched"), "requests": inner}
	v.maybe(m, "duration_ms", 0, 500, 9000, 70000, nil)
	v.maybe(m, "tool_tokens", 0, 30, 100)
	v.maybe(m, "system_tokens", 0, 50)
	return m
}

// damage changes one member of a trace to a value of another kind or out of range, or removes it.
func (v *invention) damage(o object) {
	if list, ok := o["requests"].([]any); ok && len(list) > 0 && !v.one(4) {
		if inner, ok := pick(v, list...).(object); ok {
			v.damage(inner)
			return
		}
	}
	key := pick(v, "id", "models", "block_size", "hash_id_scope", "tool_tokens", "requests", "totals", "t", "type", "model", "in", "input_length", "out", "hash_ids",
		"input_types", "stop", "api_time", "think_time", "ttft", "agent_id", "status", "duration_ms", "odd")
	if _, there := o[key]; !there && !v.one(3) {
		return
	}
	if v.one(4) {
		delete(o, key)
		return
	}
	o[key] = pick[any](v, nil, -1, -3.5, 0, 2.0, 1.5, 1e16, "", "local", "global", "subagent", "7", true, []any{}, []any{nil}, []any{1, -2, 3}, []any{"x"}, object{}, object{"a": 1})
}
