package mock

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
)

// Answer is a line of Config.Log: a request and its answer, which was written to its end. Instants are nanoseconds since 1970.
type Answer struct {
	RequestID    string `json:"request_id"` // of the header X-Request-ID
	Arrived      int64  `json:"arrived_ns"` // its headers had arrived
	First        int64  `json:"first_ns"`   // its first token was there; of an answer in one body, all of them
	Last         int64  `json:"last_ns"`    // its last token was there
	PromptTokens int    `json:"prompt_tokens"`
	CachedTokens int    `json:"cached_tokens"`
	OutputTokens int    `json:"output_tokens"`
}

// answerLog writes a line for each answer. A nil log writes none.
type answerLog struct {
	mu sync.Mutex
	to *json.Encoder
}

func newAnswerLog(to io.Writer) *answerLog {
	if to == nil {
		return nil
	}
	return &answerLog{to: json.NewEncoder(to)}
}

// add writes the line of an answer that is over, unless it was broken off. A line that cannot be written is lost, as one of any log.
func (l *answerLog) add(x *exchange, r *http.Request, arrived time.Time) {
	if l == nil || x.last.IsZero() {
		return
	}
	a := Answer{
		RequestID: r.Header.Get("X-Request-Id"), Arrived: arrived.UnixNano(), First: x.first.UnixNano(), Last: x.last.UnixNano(),
		PromptTokens: x.promptTokens, CachedTokens: x.cachedTokens, OutputTokens: x.outputTokens,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.to.Encode(a)
}
