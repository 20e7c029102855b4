// Package jsonlex reads JSON text token by token, without reflection and with few allocations.
//
// A Lexer has a position in one text. Each method skips white space, reads a value or token, and moves the position behind it:
//
//	l := jsonlex.New(text)
//	err := l.Object(func(key []byte) (err error) {
//		if string(key) == "model" {
//			model, err = l.Text()
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
// Errors are *SyntaxError: what was expected, what was found, and at which byte. After an error the position of the lexer
// is undefined, until Reset moves it back.
package jsonlex
