package wire

import (
	"errors"
	"fmt"
)

// The errors that have no operand. They reach a caller as the message of a Failure, never as an error value.
var (
	errMessageTooLong = fmt.Errorf("response has a message of more than %d bytes", maxMessageSize)
	errAnswerTooLong  = fmt.Errorf("response is longer than %d bytes", maxAnswer)
	errLineTooLong    = fmt.Errorf("response has a line of more than %d bytes", maxBuffer)
	errHeadTooLong    = fmt.Errorf("response head is longer than %d bytes", maxHead)
	errHTTP2          = errors.New("the server speaks HTTP/2 alone: want one that speaks HTTP/1.1")
	errUnexpectedEOF  = errors.New("the server closed the connection before its answer ended")
)

// bodyError is a request body that cannot be read. It becomes the category Internal: the server has no part in it.
type bodyError struct{ error }

func (e *bodyError) Unwrap() error { return e.error }
