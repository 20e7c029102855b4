// Package jsonlex reads JSON text token by token, without reflection and with few allocations.
//
// A Lexer stands at a place of one text. Each method reads what begins there, after white space, and leaves the lexer
// behind it:
//
//	l := jsonlex.New(text)
//	err := l.Object(func(key []byte) error {
//		switch string(key) {
//		case "model":
//			model, err = l.AppendString(model[:0])
//			return err
//		}
//		return l.Skip()
//	})
//	if err == nil {
//		err = l.End()
//	}
//
// By default a Lexer accepts exactly the texts that encoding/json accepts. Strict refuses two things that encoding/json
// replaces by U+FFFD: halves of surrogate pairs, and bytes that are not UTF-8.
//
// Errors are *SyntaxError: what was expected, what stands there instead, and at which byte. After an error the place of the
// lexer is undefined, unless Reset puts it back.
package jsonlex
