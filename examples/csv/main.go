// Csv reads recordings of a format that agentx does not know, and writes them as rows that it does:
//
//	csv <sessions.csv | agentx convert - --cache cache
//
// A line is a request: its session, its start in seconds, the tokens of its prompt and of its answer, and the hash ids of the
// blocks of its prompt, 64 tokens each, with blanks between.
package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/agentx/agentx/trace"
)

// read returns the sessions of a file in the order of their first lines.
func read(r io.Reader) (list []*trace.Trace, err error) {
	lines, sessions := csv.NewReader(r), map[string]*trace.Trace{}
	lines.FieldsPerRecord = 5
	for {
		fields, err := lines.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		t := sessions[fields[0]]
		if t == nil {
			t = &trace.Trace{ID: fields[0], BlockSize: 64, Scope: trace.ScopeLocal, Models: []string{"unknown"}}
			sessions[t.ID], list = t, append(list, t)
		}
		q, err := request(fields)
		if err != nil {
			line, _ := lines.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		t.Entries = append(t.Entries, trace.Entry{Request: q})
	}
	for _, t := range list {
		if err := t.Check(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// request reads the time, the lengths and the block ids of a request from the columns of a line.
func request(fields []string) (q trace.Request, err error) {
	_, err = fmt.Sscan(strings.Join(fields[1:4], " "), &q.T, &q.In, &q.Out)
	for id := range strings.FieldsSeq(fields[4]) {
		v, wrong := strconv.ParseInt(id, 10, 64)
		if wrong != nil {
			return q, wrong
		}
		q.IDs.Append(v)
	}
	return q, err
}

// row writes a trace as agentx reads it.
func row(t *trace.Trace) map[string]any {
	requests := []any{}
	for _, q := range t.Requests() {
		ids := []int64{}
		for _, run := range q.IDs.Runs {
			for k := range run.N {
				ids = append(ids, run.First+int64(k))
			}
		}
		requests = append(requests, map[string]any{"t": q.T, "type": "n", "model": t.Models[q.Model], "in": q.In, "out": q.Out, "hash_ids": ids})
	}
	return map[string]any{"id": t.ID, "models": t.Models, "block_size": t.BlockSize, "hash_id_scope": t.Scope.String(), "requests": requests}
}

func main() {
	list, err := read(os.Stdin)
	for k := 0; err == nil && k < len(list); k++ {
		err = json.NewEncoder(os.Stdout).Encode(row(list[k]))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "csv:", err)
		os.Exit(1)
	}
}
