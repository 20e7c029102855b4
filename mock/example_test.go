package mock_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/agentx/agentx/mock"
)

// Start a server, and ask it for an answer of three tokens.
func Example() {
	server := httptest.NewServer(mock.New(mock.Config{}))
	defer server.Close()
	answer, err := http.Post(server.URL+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model": "m", "max_tokens": 3, "messages": [{"role": "user", "content": "Hello"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status)
	// Output: 200 OK
}

// A fault is a kind and the share of the requests that get it.
func ExampleParseFault() {
	fault, err := mock.ParseFault("status=503:0.1")
	fmt.Println(fault.Kind, fault.Rate, err)
	// Output: status=503 0.1 <nil>
}
