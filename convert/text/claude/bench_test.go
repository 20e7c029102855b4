package claude

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/text"
)

// longLog returns rows of sessions of 150 rows each, of which half of the bytes are what the client notes beside results.
func longLog(rows, session int) (list []string) {
	r := rand.New(rand.NewPCG(1, 2))
	words := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			fmt.Fprintf(&b, "%c%d return nil, err // of line\n\t", 'a'+r.IntN(26), r.IntN(1e6))
		}
		return b.String()
	}
	id := func(n int) string {
		if n < 0 {
			return ""
		}
		return fmt.Sprintf("%08d-0000-4000-8000-%012d", session, n)
	}
	name := fmt.Sprintf(`"cwd":"/home/dev/shop","version":"2.1.27","gitBranch":"main","sessionId":"%08d-0000-4000-8000-000000000000"`, session)
	for k := 0; k < rows; k += 3 {
		call := fmt.Sprint("toolu_", session, "_", k)
		text := words(4000)
		list = append(list,
			answers(id(k+1), id(k), k%3000+1, fmt.Sprint("msg_", session, "_", k), "!"+call, 20000+k, name, `"requestId":"req"`),
			written("progress", id(k+2), id(k+1), k%3000+1, name+`,"data":{"type":"hook_progress","hookEvent":"PostToolUse"}`),
			got(id(k+3), id(k+2), k%3000+2, "", name, fmt.Sprintf(`"message":{"role":"user","content":[{"tool_use_id":%q,"type":"tool_result","content":%q}]},"toolUseResult":{"stdout":%q,"stderr":""}`, call, text, text)))
	}
	return append([]string{says(id(0), "", 0, "Fix it.", name)}, list...)
}

func BenchmarkReader(b *testing.B) {
	var rows [][]byte
	size := 0
	for session := range 20 {
		for _, row := range longLog(150, session) {
			rows = append(rows, []byte(row))
			size += len(row)
		}
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		d := text.NewDataset(text.NewStore(b.TempDir()))
		r := New(d, Options{})
		for k, row := range rows {
			if err := r.Row(row, text.Place{Path: "s.jsonl", File: k / 151}); err != nil {
				b.Fatal(err)
			}
		}
		require.NoError(b, r.End())
		d.Store.Close()
	}
}

// BenchmarkMemory says how many bytes a row takes before End, which may be 100, and what the dataset has of it behind.
func BenchmarkMemory(b *testing.B) {
	const sessions = 10000
	for b.Loop() {
		var before, behind runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		d := text.NewDataset(text.NewStore(b.TempDir()))
		r := New(d, Options{})
		n := 0
		for s := range sessions {
			id := func(k int) string { return fmt.Sprint(s, "-", k) }
			of := fmt.Sprintf(`"sessionId":"%d"`, s)
			for _, row := range [...]string{says(id(1), "", 0, "a", of), answers(id(2), id(1), 1, id(1), "b", 9, of), written("progress", id(3), id(2), 2, of),
				written("progress", id(4), id(3), 2, of), written("progress", id(5), id(4), 2, of), written("system", id(6), id(5), 2, of), says(id(7), id(6), 2, "c", of),
				written("progress", id(8), id(7), 2, of), answers(id(9), id(8), 3, id(2), "d", 9, of), answers(id(10), id(9), 4, id(2), "e", 9, of)} {
				require.NoError(b, r.Row([]byte(row), text.Place{Path: "s.jsonl"}))
				n++
			}
		}
		per := func(unit string) float64 {
			runtime.GC()
			runtime.ReadMemStats(&behind)
			size := float64(behind.HeapAlloc-before.HeapAlloc) / float64(n)
			b.ReportMetric(size, unit)
			return size
		}
		if size := per("B/row"); size > 100 {
			b.Errorf("a row takes %.0f bytes until all are read, at most 100 are wanted", size)
		}
		require.NoError(b, r.End())
		per("B/row-of-dataset")
		require.NoError(b, d.Finish())
		require.Len(b, d.Traces, sessions)
		d.Store.Close()
		runtime.KeepAlive(r)
	}
}
