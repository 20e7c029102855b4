// Package payload turns a prompt of the cache into the JSON body of a request to an OpenAI-compatible server.
//
// An [Encoder] holds what all bodies of a run share: the [Endpoint], the position of the cache-bust [Marker], and the
// fields behind the prompt ([Fields]). Its Body method fills a pooled [Body], which writes itself to a connection straight
// from the mapped files:
//
//	encoder, warnings, err := payload.NewEncoder(cache, payload.Options{Endpoint: payload.ChatCompletions, Model: "m"})
//	...
//	body, err := encoder.Body(trace, turn, marker, maxTokens)
//	...
//	defer body.Release()
//	_, err = body.WriteTo(connection)
//
// A body in steady state allocates nothing.
package payload
