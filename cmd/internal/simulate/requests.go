package simulate

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
)

// RequestLine is a line of requests.jsonl. Times are nanoseconds from the start of the run, null where nothing happened.
type RequestLine struct {
	Session      int    `json:"session"`
	Turn         int    `json:"turn"`
	Arrival      int64  `json:"arrival"`
	Admitted     *int64 `json:"admitted"` // first admission
	FirstToken   *int64 `json:"first_token"`
	SecondToken  *int64 `json:"second_token"`
	LastToken    *int64 `json:"last_token"`
	InputTokens  int    `json:"input_tokens"`
	OutputTokens int    `json:"output_tokens"` // asked for
	Emitted      int    `json:"emitted"`
	Reused       int    `json:"reused"` // prompt tokens found at the first admission
	ReusedMax    int    `json:"reused_max"`
	Recomputed   int    `json:"recomputed_tokens"`
	Worker       *int   `json:"worker"`
	Admissions   int    `json:"admissions"`
	Preemptions  int    `json:"preemptions"`
	Status       string `json:"status"`
}

// LineOf returns the line of a request.
func LineOf(q *fleet.Request) RequestLine {
	when := func(at int64, happened bool) *int64 {
		if !happened {
			return nil
		}
		return &at
	}
	line := RequestLine{
		Session: q.Session, Turn: q.Number, Arrival: q.Arrival,
		Admitted: when(q.Admitted, q.Admissions > 0), FirstToken: when(q.First, q.Tokens > 0),
		SecondToken: when(q.Second, q.Tokens > 1), LastToken: when(q.Last, q.Tokens > 0),
		InputTokens: q.Prompt, OutputTokens: q.Output, Emitted: q.Tokens, Reused: q.Reused, ReusedMax: q.ReusedMax,
		Recomputed: q.Recomputed, Admissions: q.Admissions, Preemptions: q.Preemptions, Status: q.Status.String(),
	}
	if q.Worker >= 0 {
		line.Worker = &q.Worker
	}
	return line
}

// writeRequests writes a JSON line of each request, in the order of release.
func (r *Result) writeRequests(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<16)
	e := json.NewEncoder(out)
	for _, q := range r.Requests {
		if err := e.Encode(LineOf(q)); err != nil {
			return err
		}
	}
	return out.Flush()
}
