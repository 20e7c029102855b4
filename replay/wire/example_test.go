package wire_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/agentx/agentx/replay/wire"
)

// jsonBody is a request body in memory.
type jsonBody string

func (b jsonBody) Size() int64 { return int64(len(b)) }
func (b jsonBody) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, string(b))
	return int64(n), err
}

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"choices":[{"delta":{"content":"Hello"}}]}`+"\n\n")
		io.WriteString(w, `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`+"\n\n")
		io.WriteString(w, `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}`+"\n\n")
		io.WriteString(w, "data: [DONE]\n\n")
	}))
	defer server.Close()

	client, err := wire.New(server.URL, wire.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	res := client.Do(context.Background(), &wire.Request{
		Path: "/v1/chat/completions", Stream: true,
		Body: jsonBody(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true}`),
	})
	if res.Err != nil {
		log.Fatal(res.Err) // its Category says why
	}
	fmt.Println("status", res.Status, "finish", res.FinishReason)
	fmt.Println("tokens", res.Usage.Prompt, res.Usage.OSL())
	fmt.Println("in order", res.Sent <= res.FirstToken && res.FirstToken <= res.LastMessage && res.LastMessage <= res.End)
	// Output:
	// status 200 finish stop
	// tokens 9 1
	// in order true
}
