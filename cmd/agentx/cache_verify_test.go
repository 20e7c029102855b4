package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
)

// cache verify reports damage of one cache although another one cannot be read, and damage decides the exit status.
func TestVerifyOfSeveralCaches(t *testing.T) {
	root := warmRoot(t)
	caches := map[string]string{}
	for _, name := range []string{"whole", "damaged", "newer"} {
		input := filepath.Join(t.TempDir(), name+".jsonl")
		require.NoError(t, os.WriteFile(input, []byte(strings.Replace(`{"id":"ID","models":["m"],"block_size":64,"hash_id_scope":"local","tool_tokens":0,"system_tokens":0,"requests":[{"t":0,"type":"n","model":"m","in":70,"out":2,"hash_ids":[1],"input_types":[],"output_types":[],"stop":"","api_time":1}]}`+"\n", "ID", name, 1)), 0o600))
		out := strings.TrimSpace(agentx(t, "convert", input, "--quiet", "--cache", root))
		caches[name] = out[strings.LastIndexByte(out, '\n')+1:]
	}
	require.NoError(t, os.Truncate(filepath.Join(caches["damaged"], manifest.FileName), 5))
	path := filepath.Join(caches["newer"], manifest.FileName)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	text := strings.Replace(string(data), `"manifest": 1`, `"manifest": 99`, 1)
	const line = ",\n  \"digest\": \""
	text = text[:strings.LastIndex(text, line)]
	require.NoError(t, os.WriteFile(path, []byte(text+line+manifest.Sum([]byte(text))+"\"\n}\n"), 0o600))

	for _, c := range []struct {
		names  string
		status int
		out    []string
		err    []string
	}{
		{"whole whole", 0, []string{"whole: 18 files"}, nil},
		{"whole newer", 1, nil, []string{"version 99"}},
		{"damaged newer whole", exitVerdict, []string{"damaged " + caches["damaged"]}, []string{"verify: " + caches["damaged"], "version 99", "try: agentx convert"}},
		{"newer damaged", exitVerdict, []string{"damaged " + caches["damaged"]}, []string{"verify: " + caches["damaged"], "version 99", "try: agentx convert"}},
		{"damaged nothing", exitFailed, nil, []string{"no such cache"}},
	} {
		args := []string{"cache", "verify", "--cache", root}
		for name := range strings.FieldsSeq(c.names) {
			args = append(args, cmp.Or(caches[name], name))
		}
		var out, problems strings.Builder
		assert.Equal(t, c.status, run(args, nil, &out, &problems), c.names)
		if c.out == nil {
			assert.Empty(t, out.String(), c.names)
		}
		for _, part := range c.out {
			assert.Contains(t, out.String(), part, c.names)
		}
		for _, part := range c.err {
			assert.Contains(t, problems.String(), part, c.names)
		}
		out.Reset()
		assert.Equal(t, c.status, run(append(args, "--json"), nil, &out, &problems), c.names)
		assert.Equal(t, c.names != "damaged nothing", strings.Contains(out.String(), `"files":`), c.names)
	}
}
