package page

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"

	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
)

// logRecord is a line of the log: a tick of the planner, or without one a sample, and the requests that came since the line before.
// The last line has the rest of the run.
type logRecord struct {
	At       int64                  `json:"at_ns"`
	Tick     *planner.Tick          `json:"tick,omitempty"`
	Pools    [][]fleet.WorkerState  `json:"pools,omitempty"` // of a sample
	Requests []simulate.RequestLine `json:"requests"`

	Lives [][]fleet.WorkerResult `json:"lives,omitempty"` // of the last line: of the workers of each pool
	Rest  *planner.Window        `json:"rest,omitempty"`  // of the last line: the traffic after the last throughput tick
}

// WriteLog writes everything that the page of a run draws, unthinned, as gzipped JSON lines. Equal runs give equal bytes.
func WriteLog(w io.Writer, r *simulate.Result) error {
	z := gzip.NewWriter(w)
	out := bufio.NewWriterSize(z, 1<<16)
	l := &logWriter{e: json.NewEncoder(out), requests: r.Requests}
	l.records(r)
	if l.err == nil {
		l.err = out.Flush()
	}
	if l.err != nil {
		return l.err
	}
	return z.Close()
}

// logWriter writes records in the order of time.
type logWriter struct {
	e        *json.Encoder
	requests []*fleet.Request // that are not written yet
	err      error
}

func (l *logWriter) records(r *simulate.Result) {
	end := logRecord{Lives: r.Workers}
	switch {
	case r.Planned != nil:
		for _, t := range r.Planned.Ticks {
			l.write(logRecord{At: t.At, Tick: t}, t.At)
		}
		end.Rest = &r.Planned.Rest
	case r.Samples != nil:
		for _, s := range r.Samples.List {
			l.write(logRecord{At: s.At, Pools: s.Pools}, s.At)
		}
	}
	end.At = endOf(r)
	l.write(end, end.At)
}

// write writes a record with the requests that came until an instant.
func (l *logWriter) write(one logRecord, until int64) {
	one.Requests = []simulate.RequestLine{}
	for len(l.requests) > 0 && l.requests[0].Arrival <= until {
		one.Requests = append(one.Requests, simulate.LineOf(l.requests[0]))
		l.requests = l.requests[1:]
	}
	if l.err == nil {
		l.err = l.e.Encode(one)
	}
}
