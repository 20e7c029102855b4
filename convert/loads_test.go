package convert

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/hfsource"
)

// Every sample of loads becomes what its answer says, by an independent reading of doc/spec/text.md 8 and 9.
func TestLoadSamples(t *testing.T) {
	root := shared(t, "text-samples")
	for _, kind := range []string{"bailian", "csv", "dynamo"} {
		checkSamples(t, root, kind, nil)
	}
}

// The samples of formats of Dynamo's simulator were made, and their answers computed, by a program that shares no code with agentx.
func TestSimulatorSamples(t *testing.T) {
	for kind, rules := range map[string][]string{"agentic_mooncake": nil, "applied_compute_agentic": nil, "mooncake-delta": {"session_rows", "delta"}} {
		checkSamples(t, filepath.Join("testdata", "loads"), kind, rules)
	}
}

// checkSamples compares the samples of a kind with their answers, under a rule unless it is nil.
func checkSamples(t *testing.T, root, kind string, rule []string) {
	cases, err := os.ReadDir(filepath.Join(root, kind))
	require.NoError(t, err)
	for _, c := range cases {
		t.Run(kind+"/"+c.Name(), func(t *testing.T) {
			dir := filepath.Join(root, kind, c.Name())
			want, err := os.ReadFile(filepath.Join(dir, "ANSWER.json"))
			require.NoError(t, err)
			files, err := filepath.Glob(filepath.Join(dir, "*[lvz]")) // .jsonl, .csv, .gz
			require.NoError(t, err)
			o := options(t, files...)
			if rule != nil {
				require.NoError(t, o.Rules.Set(rule[0], rule[1]))
			}
			a, err := DryRun(t.Context(), o, 64, true, nil)
			var refused struct{ Refused string }
			require.NoError(t, json.Unmarshal(want, &refused))
			if refused.Refused != "" {
				require.ErrorContains(t, err, files[0])
				t.Logf("%s: %v", refused.Refused, err)
				return
			}
			require.NoError(t, err)
			got, err := json.Marshal(a)
			require.NoError(t, err)
			require.Equal(t, indented(t, want), indented(t, got))
		})
	}
}

// Of a directory the tables that are known are read, packed or not, and those of other programs are passed over.
func TestTablesOfADirectory(t *testing.T) {
	dir := t.TempDir()
	table := []byte("TIMESTAMP,ContextTokens,GeneratedTokens\r\n1,2,3\r\n2,3,4")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.csv"), table, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.csv.zst"), zst(t, table), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.csv"), []byte("prompt,answer\nx,y\n"), 0o600))
	o := options(t, dir)
	a, err := DryRun(t.Context(), o, 64, true, nil)
	require.NoError(t, err)
	require.Equal(t, 4, a.Sessions)
	require.Equal(t, "2/row-000001", a.List[2].ID)
	r, err := Convert(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []hfsource.SkippedEntry{{Path: filepath.Join(dir, "other.csv"), Reason: "not a trace format"}}, r.SkippedEntries)
	require.Equal(t, 4, r.Facts.Turns)
	require.Equal(t, int64(10), r.Facts.PromptTokens)
}

// Files that Dynamo's sink rolled are one recording: sessions go on in the next one, and its hashes are the same.
func TestSegmentsOfDynamo(t *testing.T) {
	dir := t.TempDir()
	row := func(id string, at int) string {
		return fmt.Sprintf(`{"schema":"dynamo.request.trace.v1","event_type":"request_end","agent_context":{"session_id":"s"},"request":{"request_id":%q,"input_tokens":64,"output_tokens":1,"request_received_ms":%d,"total_time_ms":1,"replay":{"trace_block_size":64,"input_length":64,"input_sequence_hashes":[7]}}}`, id, at) + "\n"
	}
	for name, rows := range map[string]string{"p.000000.jsonl.zst": row("a", 1) + row("b", 5), "p.000001.jsonl.zst": row("b", 5) + row("c", 9)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), zst(t, []byte(rows)), 0o600))
	}
	for namespace, sessions := range map[string]int{"auto": 1, "file": 2} {
		o := options(t, dir)
		require.NoError(t, o.Rules.Set("namespace", namespace))
		a, err := DryRun(t.Context(), o, 64, false, nil)
		require.NoError(t, err)
		require.Equal(t, sessions, a.Sessions)
		require.Equal(t, sessions+2, a.Turns)
		require.Equal(t, sessions == 1, a.Warnings["copied_request"] == 1)
	}
}
