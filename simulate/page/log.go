package page

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"

	"github.com/agentx/agentx/simulate"
	"github.com/agentx/agentx/simulate/fleet"
	"github.com/agentx/agentx/simulate/planner"
)

// LogRecord is a line of the log: a tick of the planner, or without one a sample, and the requests that came since the line before.
// The last line has the rest of the run.
type LogRecord struct {
	At       int64                  `json:"at_ns"`
	Tick     *planner.Tick          `json:"tick,omitempty"`
	Pools    [][]WorkerRecord       `json:"pools,omitempty"` // of a sample
	Requests []simulate.RequestLine `json:"requests"`

	Lives [][]LifeRecord  `json:"lives,omitempty"` // of the last line: of the workers of each pool
	Rest  *planner.Window `json:"rest,omitempty"`  // of the last line: the traffic after the last throughput tick
}

// LifeRecord says when a worker was there.
type LifeRecord struct {
	Worker  int   `json:"worker"`
	Ordered int64 `json:"ordered_ns"`
	Ready   int64 `json:"ready_ns"`
	Drained int64 `json:"drained_ns"` // it left its router
	Gone    int64 `json:"gone_ns"`
}

// WorkerRecord is a worker at a sample.
type WorkerRecord struct {
	Worker      int   `json:"worker"`
	Running     int   `json:"running"`
	Waiting     int   `json:"waiting"`
	KVBlocks    int   `json:"kv_blocks"`
	Passes      int64 `json:"passes"`
	Preemptions int64 `json:"preemptions"`
	Evictions   int64 `json:"evictions"`
	Output      int64 `json:"output_tokens"`
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
	end := LogRecord{Lives: lives(r)}
	switch {
	case r.Planned != nil:
		for _, t := range r.Planned.Ticks {
			l.write(LogRecord{At: t.At, Tick: t}, t.At)
		}
		end.Rest = &r.Planned.Rest
	case r.Samples != nil:
		for _, s := range r.Samples.List {
			l.write(LogRecord{At: s.At, Pools: workerRecords(s)}, s.At)
		}
	}
	end.At = endOf(r)
	l.write(end, end.At)
}

func lives(r *simulate.Result) (pools [][]LifeRecord) {
	for _, list := range r.Workers {
		records := []LifeRecord{}
		for _, w := range list {
			records = append(records, LifeRecord{w.ID, w.Ordered, w.Ready, w.Drained, w.Gone})
		}
		pools = append(pools, records)
	}
	return pools
}

// write writes a record with the requests that came until an instant.
func (l *logWriter) write(one LogRecord, until int64) {
	one.Requests = []simulate.RequestLine{}
	for len(l.requests) > 0 && l.requests[0].Arrival <= until {
		one.Requests = append(one.Requests, simulate.LineOf(l.requests[0]))
		l.requests = l.requests[1:]
	}
	if l.err == nil {
		l.err = l.e.Encode(one)
	}
}

func workerRecords(s simulate.Sample) (pools [][]WorkerRecord) {
	for _, list := range s.Pools {
		records := []WorkerRecord{}
		for _, w := range list {
			records = append(records, WorkerRecord{w.ID, w.Running, w.Waiting, w.KVBlocks, w.Passes, w.Preemptions, w.Evictions, w.Output})
		}
		pools = append(pools, records)
	}
	return pools
}
