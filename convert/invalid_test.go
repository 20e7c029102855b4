package convert

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
	"github.com/agentx/agentx/trace"
)

// zst compresses text.
func zst(t testing.TB, text []byte) []byte {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return w.EncodeAll(text, nil)
}

// Covers D11.
func TestInvalidInputIsNamedAndLeavesNothing(t *testing.T) {
	good := traceText("a")
	replace := func(old, new string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, new, 1)
	}
	noise := rand.New(rand.NewPCG(1, 2))
	var many strings.Builder // does not compress to one block
	for k := range 3000 {
		many.WriteString(strings.Replace(traceText(fmt.Sprint(k, "-", noise.Uint64())), "{", fmt.Sprintf(`{"pad":"%x%x",`, noise.Uint64(), noise.Uint64()), 1) + "\n")
	}
	packed := zst(t, []byte(many.String()))
	first := lines(t, traceText("b"), good)
	for name, c := range map[string]struct {
		inputs []string
		want   []string
		is     error
	}{
		"not JSON":                {inputs: []string{lines(t, good, "nonsense")}, want: []string{"in.jsonl:2: ", "not JSON"}},
		"cut in the middle":       {inputs: []string{lines(t, traceText("b"), good[:200])}, want: []string{"in.jsonl:2: ", "cut off after 200 bytes"}},
		"two values on a line":    {inputs: []string{lines(t, good+" "+good)}, want: []string{"in.jsonl:1: ", "data after the "}},
		"missing field":           {inputs: []string{lines(t, replace(`"in":9,`, ""))}, want: []string{"in.jsonl:1: ", `trace "a"`, "requests[1].requests[0]", `"in" is missing`}},
		"negative in":             {inputs: []string{lines(t, replace(`"in":25`, `"in":-25`))}, want: []string{"in.jsonl:1: ", `trace "a"`, "requests[2]", "in = -25"}},
		"absurd length":           {inputs: []string{lines(t, replace(`"in":25`, `"in":25000000000`))}, want: []string{"in.jsonl:1: ", "requests[2]", "25000000000"}},
		"absurd time":             {inputs: []string{lines(t, replace(`"t":9`, `"t":1e300`))}, want: []string{"in.jsonl:1: ", "requests[2].t", "1e300"}},
		"id beyond 64 bits":       {inputs: []string{lines(t, replace(`[1,9]`, `[1,9223372036854775808]`))}, want: []string{"requests[1].requests[0].hash_ids[1]"}},
		"prefix too long":         {inputs: []string{lines(t, replace(`"tool_tokens":4`, `"tool_tokens":13`))}, want: []string{"in.jsonl:1: ", `session "a"`, "13 tokens need 4 blocks"}},
		"agent twice":             {inputs: []string{lines(t, replace(`{"t":9`, `{"t":3,"type":"subagent","agent_id":"a","requests":[]},{"t":9`))}, want: []string{"requests[2]", `agent_id "a"`}},
		"block beyond the corpus": {inputs: []string{lines(t, traceText("b"), replace(`"block_size":4`, `"block_size":300000`))}, want: []string{`trace "a"`, "block_size 300000 is larger than the corpus"}},
		"duplicate id":            {inputs: []string{first, lines(t, good)}, want: []string{"in.jsonl:1: ", `trace "a"`, "line 2 of file 1 of the input"}},
		"duplicate id, same file": {inputs: []string{lines(t, good, good)}, want: []string{"in.jsonl:2: ", `trace "a"`, "line 1 of file 1 of the input"}},
		"a file twice":            {inputs: []string{first, first}, want: []string{"in.jsonl:1: ", `trace "b"`}},
		"cut zst":                 {inputs: []string{write(t, "in.jsonl.zst", packed[:len(packed)/2])}, want: []string{"in.jsonl.zst:", "unexpected EOF"}},
		"empty .json":             {inputs: []string{write(t, "in.json", nil)}, want: []string{"in.json: ", "it is empty"}},
		"empty .jsonl":            {inputs: []string{write(t, "in.jsonl", nil)}, want: []string{"no trace in ", "in.jsonl: empty: fetch or copy it again"}},
		"blank lines":             {inputs: []string{write(t, "in.jsonl", []byte("\n\r\n  \n"))}, want: []string{"no trace in ", "in.jsonl: no line of it holds one"}},
		"empty directory":         {inputs: []string{t.TempDir()}, want: []string{"the directory has no"}},
		"missing path":            {inputs: []string{"nowhere"}, want: []string{"input nowhere: there is no such file"}},
		"no input":                {want: []string{"inputs: none"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, c.inputs...)
			_, err := Convert(t.Context(), o)
			require.Error(t, err)
			for _, w := range c.want {
				assert.ErrorContains(t, err, w)
			}
			requireClean(t, o.Root)
		})
	}
}

func TestCorpusAndTokenizerAreCheckedFirst(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"unknown corpus": {func(o *Options) { o.Corpus = "sonnet" }, "corpus sonnet"},
		"no such file":   {func(o *Options) { o.Corpus = "nowhere.u32le" }, "corpus nowhere.u32le"},
		"empty corpus":   {func(o *Options) { o.Corpus = write(t, "c.u32le", nil) }, "c.u32le: 0 bytes"},
		"half an id":     {func(o *Options) { o.Corpus = write(t, "c.u32le", []byte{1, 0, 0, 0, 2}) }, "byte offset 4"},
		"id of no token": {func(o *Options) {
			o.Corpus = write(t, "c.u32le", append([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0}, make([]byte, 8)...))
		}, "byte offset 4"},
		"unknown tokenizer": {func(o *Options) { o.Tokenizer = "gpt2" }, "gpt2"},
		"block too large":   {func(o *Options) { o.Rules.BlockSize = 301 }, "trace \"a\": block_size 301 is larger than the corpus"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, lines(t, traceText("a")))
			c.change(&o)
			_, err := Convert(t.Context(), o)
			assert.ErrorContains(t, err, c.want)
			requireClean(t, o.Root)
		})
	}
	o := options(t, lines(t, traceText("a")))
	o.Rules.BlockSize = 300 // the whole corpus is one block
	requireSound(t, o.convert(t))
}

// A Mooncake row that is refused takes the other rows of its session with it, before and behind it, and only where its session
// can be read.
//
// Covers I-6.
func TestSkipInvalidLeavesOutTheSession(t *testing.T) {
	row := func(session, rest string) string {
		return `{"session_id":"` + session + `","output_length":1,` + rest + `}`
	}
	good := []string{row("a", `"timestamp":10,"hash_ids":[0]`), row("b", `"timestamp":20,"hash_ids":[1]`), row("a", `"delay":5,"hash_ids":[0,2]`), row("c", `"timestamp":40,"hash_ids":[0]`)}
	for name, c := range map[string]struct {
		row  string
		at   int
		want string // traces, in order
	}{
		"in the middle":            {row("a", `"delay":10`), 1, "b c"},
		"the first of its session": {row("a", `"hash_ids":[1]`), 0, "b c"},
		"the last":                 {row("c", `"timestamp":50,"hash_ids":"x"`), 4, "a b"},
		"its only one":             {row("d", `"timestamp":50`), 2, "a b c"},
		"without a session":        {`{"timestamp":1}`, 2, "a b c"},
		"cut behind the session":   {row("b", `"timestamp":50`)[:18], 3, "a c"},
		"cut before it":            {`{"session_`, 3, "a b c"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, lines(t, slices.Insert(slices.Clone(good), c.at, c.row)...))
			o.Corpus = tinyCorpus(t, 3000)
			_, err := Convert(t.Context(), o)
			var invalid *InvalidTraceError
			require.ErrorAs(t, err, &invalid)
			assert.True(t, invalid.Others)
			assert.Contains(t, invalid.Where, fmt.Sprint(":", c.at+1))
			o.SkipInvalid = true
			r := o.convert(t)
			assert.Equal(t, 1, r.Facts.AllSkipped())
			var ids []string
			dataset := openResult(t, o, r)
			for i := range dataset.Structure.Traces.Len() {
				ids = append(ids, dataset.Structure.Traces.At(i).ID)
			}
			assert.Equal(t, c.want, strings.Join(ids, " "))
		})
	}
}

// What stands behind a gzip file is left out with a warning; zeros need none.
//
// Covers I-2.
func TestGarbageBehindGzip(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(traceText("a") + "\n"))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for tail, want := range map[string]string{"\x00\x00\x00": "", "rest": "in.jsonl.gz: what stands behind its last gzip member is no gzip, and is left out, as gzip does"} {
		o := options(t, write(t, "in.jsonl.gz", append(bytes.Clone(packed.Bytes()), tail...)))
		var warned []string
		o.Warn = func(format string, args ...any) { warned = append(warned, fmt.Sprintf(format, args...)) }
		assert.Equal(t, 1, o.convert(t).Facts.Traces)
		assert.Contains(t, strings.Join(warned, "\n"), want)
		assert.Equal(t, want != "", warned != nil, "%q", warned)
	}
}

// An error about an invalid trace says whether there are valid ones, before it or behind it.
//
// Covers I-6.
func TestInvalidTraceAmongOthers(t *testing.T) {
	bad := `{"id":"x","models":[],"block_size":4,"requests":7}`
	many := slices.Repeat([]string{bad}, maxRefused)
	for name, c := range map[string]struct {
		rows   []string
		others bool
	}{
		"alone": {[]string{bad}, false}, "all": {[]string{bad, bad, bad}, false}, "behind a good one": {[]string{traceText("a"), bad}, true}, "before one": {[]string{bad, traceText("a")}, true},
		"far before one": {append(slices.Clone(many[1:]), traceText("a")), true}, "too far to be read": {append(many, traceText("a")), false},
	} {
		o := options(t, lines(t, c.rows...))
		_, err := Convert(t.Context(), o)
		var invalid *InvalidTraceError
		require.ErrorAs(t, err, &invalid, name)
		assert.Equal(t, c.others, invalid.Others, name)
		assert.Regexp(t, `in.jsonl:(1|2)$`, invalid.Where, name)
		requireClean(t, o.Root)
	}
	o := options(t, lines(t, traceText("a"), traceText("b"), bad, bad)) // in shards
	o.shardRows = 2
	_, err := Convert(t.Context(), o)
	var invalid *InvalidTraceError
	require.ErrorAs(t, err, &invalid)
	assert.True(t, invalid.Others)
}

// Of several invalid rows the first one in the input is reported, whichever worker is first.
func TestFirstInvalidRowIsReported(t *testing.T) {
	rows := []string{}
	for k := range 40 {
		rows = append(rows, traceText(fmt.Sprint("t", k)))
	}
	rows[7] = strings.Replace(rows[7], `"out":3`, `"pad":"`+strings.Repeat("x", 1<<20)+`","out":-`, 1) // slow to read
	rows[8], rows[9], rows[30] = "broken", rows[0], "broken"
	in := lines(t, rows...)
	for workers := 1; workers <= 8; workers++ {
		o := options(t, in)
		o.Workers = workers
		_, err := Convert(t.Context(), o)
		var invalid *InvalidTraceError
		require.ErrorAs(t, err, &invalid)
		assert.Equal(t, in+":8", invalid.Where)
		var fault *trace.Error
		require.ErrorAs(t, err, &fault)
		assert.Equal(t, trace.NotJSON, fault.Kind)
	}
}

func TestSkippedTracesAreListedAndJudgedAgain(t *testing.T) {
	rows := []string{traceText("a"), "broken", traceText("b"), traceText("a"), strings.Replace(traceText("c"), `"in":9`, `"in":-9`, 1)}
	in := lines(t, rows...)
	o := options(t, lines(t, traceText("z")), in)
	_, strict := Convert(t.Context(), o)
	require.Error(t, strict)
	requireClean(t, o.Root)

	o.SkipInvalid = true
	r := o.convert(t)
	requireSound(t, r)
	assert.Equal(t, 3, r.Facts.Traces)
	require.Len(t, r.Facts.Skipped, 3)
	for k, want := range []struct {
		line int
		why  string
	}{{2, "not JSON"}, {4, "the first is line 1 of its file"}, {5, "in = -9"}} {
		s := r.Facts.Skipped[k]
		assert.Equal(t, mmapcache.Skipped{File: 2, Line: want.line, Where: fmt.Sprintf("%s:%d", in, want.line), Reason: s.Reason}, s)
		assert.Contains(t, s.Reason, want.why)
	}

	hit := o.convert(t)
	assert.True(t, hit.Hit)
	assert.Equal(t, r.Facts, hit.Facts)

	o.SkipInvalid = false
	_, err := Convert(t.Context(), o)
	assert.EqualError(t, err, strict.Error(), "a strict run on the hit")
	var invalid *InvalidTraceError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, in+":2", invalid.Where)

	// The manifest is a pure function of the key: another name of the input changes no byte, and errors name it.
	want := filesOf(t, o.Root)
	renamed := write(t, "other.jsonl", []byte(strings.Join(rows, "\n")+"\n"))
	o.Inputs[1] = renamed
	_, err = Convert(t.Context(), o)
	assert.ErrorContains(t, err, renamed+":2: ")
	o.SkipInvalid, o.Force = true, true
	assert.Equal(t, r.Key, o.convert(t).Key)
	assert.Equal(t, want, filesOf(t, o.Root))
}

func TestStrictRunRefusesUnknownKeys(t *testing.T) {
	in := lines(t, strings.Replace(traceText("a"), "{", `{"extra":1,`, 1))
	o := options(t, in)
	o.Strict = true
	_, err := Convert(t.Context(), o)
	assert.ErrorContains(t, err, `a strict conversion refuses what another warns of: unknown key "extra", once, first in a`)
	requireClean(t, o.Root)
	o.Strict = false
	r := o.convert(t)
	assert.Equal(t, map[string]int{"extra": 1}, r.Facts.Unknown)
	o.Strict = true
	_, again := Convert(t.Context(), o)
	assert.EqualError(t, again, err.Error())
}

// Oddities are counted, with the first of each kind. Strict runs refuse them, on a hit as on a build.
func TestStrictRunRefusesOddities(t *testing.T) {
	row := func(id string, size int, requests string) string {
		return fmt.Sprintf(`{"id":%q,"models":[],"block_size":%d,"hash_id_scope":"local","requests":[%s]}`, id, size, requests)
	}
	const one = `{"t":9,"type":"n","model":"m","in":100,"out":1,"hash_ids":[1]}`
	in := lines(t, row("a", 64, one), row("b", 100, one), row("c", 100, strings.Replace(one, "100", "500", 1)+","+strings.Replace(one, "9", "0", 1)))
	o := options(t, in)
	o.Strict = true
	_, err := Convert(t.Context(), o)
	const size = `block_size is not a power of two up to 4096 (2 times, first in trace "b": block_size 100)`
	assert.EqualError(t, err, `a strict conversion refuses what another warns of: a request starts before the one above it (once, in trace "c": requests[1]: t = 0, below t = 9); `+
		size+`; hash_ids cover fewer blocks than the prompt has: filler takes their place (once, in trace "c": requests[0]: 1 hash_ids for in = 500, which has 5 blocks of 100)`)
	requireClean(t, o.Root)
	o.Strict = false
	r := o.convert(t)
	require.Len(t, r.Facts.Oddities, 3)
	assert.Equal(t, mmapcache.Oddity{Kind: "block_size", Count: 2, Trace: "b", First: "block_size 100"}, r.Facts.Oddities[1])
	assert.Equal(t, size, describeOddity(r.Facts.Oddities[1]))
	o.Strict = true
	_, again := Convert(t.Context(), o)
	assert.EqualError(t, again, err.Error())
	e, refusal := Explain(t.Context(), o)
	require.NoError(t, refusal)
	assert.Equal(t, err.Error(), e.Refused)
}

// Weka traces and Mooncake rows in one input are one dataset. Convert warns of it and counts the traces of Mooncake rows, which
// stand behind the others.
func TestMixedFormsAreOdd(t *testing.T) {
	row := `{"timestamp":0,"input_length":500,"output_length":1,"hash_ids":[0]}` + "\n"
	weka, mooncake := lines(t, traceText("a"), traceText("b")), write(t, "mooncake.jsonl", []byte(row+row+row))
	for _, c := range []struct {
		inputs []string
		want   mmapcache.Oddity
	}{
		{[]string{weka, mooncake}, mmapcache.Oddity{Kind: "mixed_forms", Count: 3, Trace: "row-000001", First: "Mooncake rows: line 1 of file 2 of the input"}},
		{[]string{mooncake, weka}, mmapcache.Oddity{Kind: "mixed_forms", Count: 3, Trace: "row-000001", First: "Mooncake rows: line 1 of file 1 of the input"}},
	} {
		o := options(t, c.inputs...)
		o.Corpus = tinyCorpus(t, 3000)
		r := o.convert(t)
		assert.Equal(t, []mmapcache.Oddity{c.want}, r.Facts.Oddities)
		o.Strict = true
		_, err := Convert(t.Context(), o)
		assert.ErrorContains(t, err, "traces of several formats become one dataset")
	}
	for _, input := range []string{weka, mooncake} {
		o := options(t, input)
		o.Corpus, o.Strict = tinyCorpus(t, 3000), true
		assert.Empty(t, o.convert(t).Facts.Oddities)
	}
}

// Two sessions with one name are refused, in one trace or in two: results name sessions.
func TestSessionsOfOneName(t *testing.T) {
	request := func(t float64, ids string) string {
		return fmt.Sprintf(`{"t":%g,"type":"n","model":"m","in":70,"out":1,"hash_ids":[%s]}`, t, ids)
	}
	agent := func(id string, requests ...string) string {
		return fmt.Sprintf(`{"t":1,"type":"subagent","agent_id":%q,"requests":[%s]}`, id, strings.Join(requests, ","))
	}
	traceText := func(id string, entries ...string) string {
		return fmt.Sprintf(`{"id":%q,"models":[],"block_size":64,"hash_id_scope":"local","requests":[%s]}`, id, strings.Join(entries, ","))
	}
	side := agent("x", request(1, "1"), request(1.5, "7"), request(2, "1,2"))
	one := traceText("t", request(0, "1"), agent("x:aux:000", request(1, "3")), side)
	two := []string{traceText("t", request(0, "1"), agent("b::aux:000", request(1, "3"))), traceText("t::sa:b", request(0, "1"), request(1, "7"), request(2, "1,2"))}
	for want, rows := range map[string][]string{
		`trace "t": requests[2]: a second session of the name "t::sa:x:aux:000"`:                                                    {one},
		`trace "t::sa:b": session "t::sa:b::aux:000": a second session of this name: the first is of line 1 of file 1 of the input`: two,
		`trace "a": a second trace of this id: the first is line 1 of file 1 of the input`:                                          {traceText("a"), traceText("a")},
	} {
		o := options(t, lines(t, rows...))
		o.Rules = idsOfAIPerf()
		_, err := Convert(t.Context(), o)
		var invalid *InvalidTraceError
		require.ErrorAs(t, err, &invalid)
		assert.EqualError(t, invalid.Err, want)
	}
	o := options(t, lines(t, traceText("t", request(0, "1"), side), traceText("t::sa:b")))
	o.Rules = idsOfAIPerf()
	o.convert(t)
}

// idsOfAIPerf are the default rules with the refusals of AIPerf, which takes any id.
func idsOfAIPerf() rules.Rules {
	r := rules.Default()
	r.Refusals = "error"
	return r
}

// A file that changes while it is read ends the conversion, even with SkipInvalid: its rows are not those of the digest.
func TestFileThatChangesIsNoTraceToSkip(t *testing.T) {
	text := traceText("a") + "\n" + traceText("b") + "\n"
	for name, now := range map[string][]byte{
		"other content": []byte(strings.Replace(text, `"in":9`, `"in":8`, 1)), "cut": []byte(text[:400]), "emptied": {}, "removed": nil,
	} {
		for _, suffix := range []string{".jsonl", ".jsonl.zst"} {
			t.Run(name+suffix, func(t *testing.T) {
				data := []byte(text)
				if suffix == ".jsonl.zst" {
					data = zst(t, data)
				}
				in := write(t, "in"+suffix, data)
				o := options(t, in)
				o.SkipInvalid = true
				o.Source.Progress = func(n int64) {
					if n > 0 { // the end of the file comes with no byte
						return
					}
					if now == nil {
						assert.NoError(t, os.Remove(in))
						return
					}
					assert.NoError(t, os.WriteFile(in, now, 0o666))
				}
				_, err := Convert(t.Context(), o)
				if now == nil {
					assert.ErrorIs(t, err, os.ErrNotExist)
				} else {
					assert.ErrorIs(t, err, hfsource.ErrChanged)
				}
				assert.ErrorContains(t, err, in)
				requireClean(t, o.Root)
			})
		}
	}
}

func TestCancelledAnywhereLeavesNothing(t *testing.T) {
	base := options(t, lines(t, demoLines()...))
	base.Workers = 3
	base.convert(t)
	for after := 0; ; after++ {
		ctx, cancel := context.WithCancel(t.Context())
		o := withArenas(t, base)
		n := 0
		o.Source.Progress = func(int64) {
			if n++; n > after {
				cancel()
			}
		}
		o.disk.Step = func(string, string) error { o.Source.Progress(0); return nil }
		_, err := Convert(ctx, o)
		cancel()
		if err == nil {
			require.Greater(t, after, 10)
			return
		}
		require.ErrorIs(t, err, context.Canceled)
		requireClean(t, o.Root)
	}
}

func TestCancelledWhilePlanningAndFilling(t *testing.T) {
	for _, stage := range []string{"plan", "fill"} {
		ctx, cancel := context.WithCancel(t.Context())
		o := options(t, "@demo")
		o.Progress = func(s string, _, _ int64) {
			if s == stage {
				cancel()
			}
		}
		_, err := Convert(ctx, o)
		assert.ErrorIs(t, err, context.Canceled, stage)
		requireClean(t, o.Root)
	}
}

// A conversion whose context belongs to a lost lease ends, and does not wait for the new holder, which builds something else.
func TestLosingTheLeaseAround(t *testing.T) {
	ctx, lose := context.WithCancelCause(t.Context())
	defer lose(nil)
	o := options(t, lines(t, traceText("a")))
	claims := 0
	o.disk.Step = func(name, _ string) error {
		if name != "claim" {
			return nil
		}
		if claims++; claims > 10 {
			return errors.New("it goes on for ever")
		}
		lose(fmt.Errorf("the lease around: %w", durable.ErrLost))
		return nil
	}
	_, err := Convert(ctx, o)
	require.ErrorIs(t, err, durable.ErrLost)
	assert.Equal(t, 1, claims)
	requireClean(t, o.Root)
}

// Comparisons of one key do not wait for each other.
func TestComparisonsAtTheSameTime(t *testing.T) {
	o := options(t, lines(t, traceText("a")))
	o.convert(t)
	first := o
	first.VerifyHit = true
	inner := 0
	first.disk.Step = func(name, path string) error {
		if inner == 0 && name == "create" && strings.Contains(path, "verify-") {
			inner++
			second := o
			second.VerifyHit, second.Wait = true, -1
			assert.Contains(t, second.convert(t).Stages, "verify")
		}
		return nil
	}
	first.convert(t)
	assert.Equal(t, 1, inner)
	left, err := os.ReadDir(filepath.Join(o.Root, durable.StagingDir))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// Each step that touches the disk fails once. Then all parts are complete, and the next run succeeds.
func TestEveryFailingStepLeavesWholePartsOnly(t *testing.T) {
	seconds(t)
	base := options(t, lines(t, traceText("a")))
	base.convert(t)
	want := filesOf(t, base.Root)
	full := errors.New("no space left")
	for fail := 0; ; fail++ {
		o := withArenas(t, base)
		n := 0
		o.disk.Step = func(name, _ string) error {
			if name == "release" { // that others may wait is a warning
				return nil
			}
			if n++; n == fail+1 {
				return full
			}
			return nil
		}
		_, err := Convert(t.Context(), o)
		if n <= fail {
			require.NoError(t, err)
			break
		}
		require.ErrorIs(t, err, full)
		list, err := cachestore.List(o.Root)
		require.NoError(t, err)
		for _, e := range list {
			require.Empty(t, e.Damaged)
			_, err := mmapcache.Lookup(o.Root, e.Kind, e.Key)
			require.NoError(t, err)
		}
		o.disk.Step = nil
		o.convert(t)
		require.Equal(t, want, filesOf(t, o.Root))
	}
}

func TestLastLineNeedsNoNewline(t *testing.T) {
	whole := lines(t, traceText("a"), traceText("b"))
	text, err := os.ReadFile(whole)
	require.NoError(t, err)
	o := options(t, whole)
	o.convert(t)
	want := tables(t, o.Root)
	for _, other := range [][]byte{bytes.TrimSpace(text), bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")), append([]byte("\n\n"), text...)} {
		o := options(t, write(t, "in.jsonl", other))
		o.convert(t)
		assert.Equal(t, want, tables(t, o.Root))
	}
}
