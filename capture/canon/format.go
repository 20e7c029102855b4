package canon

import (
	"net/http"
	"strings"
)

// Format is a kind of request body.
type Format uint8

// The formats that have canonical streams.
const (
	Chat        Format = iota + 1 // OpenAI chat completions
	Messages                      // Anthropic Messages
	Responses                     // OpenAI Responses
	Completions                   // OpenAI completions
)

func (f Format) String() string {
	if f < Chat || f > Completions {
		return "none"
	}
	return [...]string{"chat", "messages", "responses", "completions"}[f-1]
}

// FormatOf returns the format of a request by its method and path, and false for requests that are never recorded.
func FormatOf(method, path string) (Format, bool) {
	if method != http.MethodPost {
		return 0, false
	}
	switch {
	case strings.HasSuffix(path, "/v1/chat/completions"):
		return Chat, true
	case strings.HasSuffix(path, "/v1/messages"):
		return Messages, true
	case strings.HasSuffix(path, "/v1/responses"):
		return Responses, true
	case strings.HasSuffix(path, "/v1/completions"):
		return Completions, true
	}
	return 0, false
}
