package measure

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A line with a value that no run writes is refused: the error names file, line, field and value, and says what to do.
func TestDamagedRecords(t *testing.T) {
	warm := good(0, 1, 0, 0.5, 2, 3)
	warm.Phase, warm.Bucket = WarmupPhase, WarmupBucket
	cancelled := bad(CancelledAtEnd, "cancelled")
	for _, c := range []struct {
		of            *Record
		old, new, say string
	}{
		{warm, `"phase":"warmup"`, `"phase":"bar"`, `phase: "bar": want warmup or profiling`},
		{warm, `"phase":"warmup"`, `"pase":"warmup"`, `phase: "": want`},
		{warm, `"phase":"warmup"`, `"phase":"profiling"`, `bucket: "warmup": want ["profiling" "cooldown"] for this phase and error`},
		{warm, `"bucket":"warmup"`, `"bucket":"cooldown"`, `bucket: "cooldown": want ["warmup"]`},
		{cancelled, `"bucket":"cancelled_at_end"`, `"bucket":"foo"`, `bucket: "foo": want ["cancelled_at_end"]`},
		{cancelled, `"category":"cancelled"`, `"category":"context_overflow"`, `bucket: "cancelled_at_end": want ["context_overflow"]`},
		{warm, `"due":1`, `"due":-1`, "due: -1: want 0 to 1e+09"},
		{warm, `"due":1`, `"due":1e300`, "due: 1e+300: want 0 to 1e+09"},
		{warm, `"due":1`, `"due":1e999`, "due: "},
		{warm, `"prompt_tokens":98`, `"prompt_tokens":-98`, "prompt_tokens: -98: want 0 to 1099511627776"},
		{warm, `"output_tokens":3`, `"output_tokens":9000000000000000000`, "output_tokens: 9000000000000000000: want"},
		{cancelled, `"category":`, `"code":-1,"category":`, "error.code: -1: want"},
		{warm, `"end":3.1`, `"end":0.5`, "end: 0.5: want no instant before last_token, 3"},
		{warm, `"first_token":1.5`, `"first_token":0.5`, "first_token: 0.5: want no instant before sent, 1"},
		{warm, `"last_token":3,`, ``, "first_token: 1.5, last_token: 0: want both or none"},
	} {
		line := string(c.of.AppendJSON(nil))
		require.Contains(t, line, c.old)
		dir := t.TempDir()
		path := filepath.Join(dir, RecordsFile)
		require.NoError(t, os.WriteFile(path, []byte(line+"\n"+strings.Replace(line, c.old, c.new, 1)+"\n"), 0o600))
		in := openRecords(t, dir)
		_, err := in.Next()
		require.NoError(t, err)
		_, err = in.Next()
		require.ErrorContains(t, err, path+": line 2: "+c.say)
		require.ErrorContains(t, err, "restore the file, or cut it off before this line")
	}
}

// Numbers of RunFile that no run writes are refused: the error names file, field and value, and says what to do.
func TestDamagedInfo(t *testing.T) {
	for _, c := range []struct {
		damage func(*RunInfo)
		say    string
	}{
		{func(i *RunInfo) {}, ""},
		{func(i *RunInfo) { i.Facts.PhaseDuration = -1 }, "facts.phase_duration: -1: want 0 to 1e+09"},
		{func(i *RunInfo) { i.Facts.Deadline = 1e300 }, "facts.deadline: 1e+300: want 0 to 1e+09"},
		{func(i *RunInfo) { i.Facts.Load.Requests = -2 }, "facts.load.requests_in_flight: -2: want"},
		{func(i *RunInfo) { i.Facts.Branches.IdleSkipped = -1 }, "facts.branches.idle_skipped: -1: want"},
		{func(i *RunInfo) { i.Facts.Deadlocks = []DeadlockReport{{}, {Last: LastEvent{At: -3}}} }, "facts.wedged[1].last.at: -3: want"},
		{func(i *RunInfo) { i.Facts.PeakRSS = 1 << 60 }, "facts.peak_rss: 1152921504606846976: want 0 to 9007199254740992"},
		{func(i *RunInfo) { i.Lanes = -1 }, "concurrency: -1: want"},
		{func(i *RunInfo) { i.Phases[0].Duration = -4 }, "phases[0].duration: -4: want"},
		{func(i *RunInfo) { i.Phases[0].Name = "main" }, `phases[0].name: "main": want "warmup" or "profiling"`},
		{func(i *RunInfo) { i.Phases[0].Start = time.Time{} }, "phases[0].start: 0001-01-01T00:00:00Z: want a year from 1970 to 2200"},
	} {
		info := RunInfo{
			Lanes:  2,
			Phases: []PhaseSpan{{Name: ProfilingPhase, Start: time.Unix(1e9, 0), Duration: 5}},
			Facts:  &Facts{PhaseDuration: 5, Warmup: &WarmupFacts{Duration: Missing}, Load: &Load{Seconds: 5}},
		}
		c.damage(&info)
		text, err := json.Marshal(info)
		require.NoError(t, err)
		_, err = readInfo(t, text)
		if c.say == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, RunFile+": "+c.say)
		require.ErrorContains(t, err, "restore the file")
	}
}

// What is no JSON, or of another kind than a run writes, is named with its line.
func TestInfoThatCannotBeRead(t *testing.T) {
	_, err := readInfo(t, []byte("{\n \"facts\": {\n  \"cpu\": \"NaN\"\n}}"))
	require.ErrorContains(t, err, RunFile+": line 3: facts.cpu: string cannot stand here; no run writes this: restore the file")
	_, err = readInfo(t, []byte("{\n \"facts\": {\"phase_duration\": 1e999}}"))
	require.ErrorContains(t, err, RunFile+": line 2: facts.phase_duration: number 1e999 cannot stand here")
	_, err = readInfo(t, []byte("{\n \"facts\": {\n  \"cpu\": NaN}}"))
	require.ErrorContains(t, err, RunFile+": line 3: invalid character 'N'")
}

func readInfo(t *testing.T, text []byte) (RunInfo, error) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, RunFile), text, 0o600))
	return ReadInfo(dir)
}
