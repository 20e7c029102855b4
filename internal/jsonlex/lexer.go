package jsonlex

// DefaultMaxDepth is the nesting that New allows, that of encoding/json.
const DefaultMaxDepth = 10000

// Lexer reads one JSON text from front to back. It is not safe for concurrent use.
type Lexer struct {
	Data     []byte
	Pos      int  // the next byte to read
	MaxDepth int  // objects and arrays that may be open at once
	Strict   bool // refuse halves of surrogate pairs, and strings that are not UTF-8

	depth   int
	decoded []byte // strings with escapes that ShortString has returned to open members
}

// New returns a lexer at the beginning of a text.
func New(data []byte) *Lexer { return &Lexer{Data: data, MaxDepth: DefaultMaxDepth} }

// Kind is the kind of a JSON value.
type Kind uint8

// Kinds of values.
const (
	None Kind = iota // no value begins here
	Object
	Array
	String
	Number
	Bool
	Null
)

func (k Kind) String() string {
	return [...]string{"no value", "object", "array", "string", "number", "true or false", "null"}[k]
}

// Mark is a position in a text, for Reset.
type Mark struct{ pos, depth int }

// Mark returns the lexer's position.
func (l *Lexer) Mark() Mark { return Mark{l.Pos, l.depth} }

// Reset moves the lexer back to an earlier position, also after an error.
func (l *Lexer) Reset(m Mark) { l.Pos, l.depth = m.pos, m.depth }

// Peek skips white space and returns the byte after it, 0 at the end of the text. A 0 within the text begins no token
// either.
func (l *Lexer) Peek() byte {
	if l.Pos < len(l.Data) && l.Data[l.Pos] > ' ' {
		return l.Data[l.Pos]
	}
	return l.peekBeyondSpace()
}

func (l *Lexer) peekBeyondSpace() byte {
	for l.Pos < len(l.Data) {
		switch c := l.Data[l.Pos]; c {
		case ' ', '\t', '\n', '\r':
			l.Pos++
		default:
			return c
		}
	}
	return 0
}

// AtEnd skips white space and reports whether the text ends behind it.
func (l *Lexer) AtEnd() bool {
	l.Peek()
	return l.Pos >= len(l.Data)
}

// End returns an error unless only white space follows.
func (l *Lexer) End() error {
	if l.AtEnd() {
		return nil
	}
	return l.Expected("the end of the text")
}

// Kind returns the kind of the next value by its first byte. The rest of the value may be malformed.
func (l *Lexer) Kind() Kind {
	switch c := l.Peek(); c {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	default:
		if c == '-' || c-'0' <= 9 {
			return Number
		}
		return None
	}
}

// Object reads an object. It calls member for each key, with the lexer before the value, which member has to read. The key
// is valid until member returns.
func (l *Lexer) Object(member func(key []byte) error) error {
	if err := l.open('{'); err != nil {
		return err
	}
	if l.Peek() == '}' {
		return l.close('}')
	}
	top := len(l.decoded)
	for {
		if l.Peek() != '"' {
			return l.Expected("a key")
		}
		key, err := l.ShortString()
		if err != nil {
			return err
		}
		if l.Peek() != ':' {
			return l.Expected("':'")
		}
		l.Pos++
		l.Peek()
		if err := member(key); err != nil {
			return err
		}
		l.decoded = l.decoded[:top]
		if l.Peek() != ',' {
			return l.close('}')
		}
		l.Pos++
	}
}

// ShortString reads a string and returns what it means: a slice of the text where it has no escapes, else bytes that are
// valid until the member of an object that is being read returns.
func (l *Lexer) ShortString() ([]byte, error) {
	if l.Peek() == '"' && !l.Strict {
		if end, escaped := StringEnd(l.Data, l.Pos); end > 0 && !escaped {
			start := l.Pos + 1
			l.Pos = end
			return l.Data[start : end-1], nil
		}
	}
	raw, escaped, err := l.RawString()
	if err != nil || !escaped {
		return raw, err
	}
	l.Pos -= len(raw) + len(`""`)
	top := len(l.decoded)
	l.decoded, err = l.AppendString(l.decoded)
	return l.decoded[top:], err
}

// Array reads an array. It calls element before each element, which element has to read.
func (l *Lexer) Array(element func() error) error {
	if err := l.open('['); err != nil {
		return err
	}
	if l.Peek() == ']' {
		return l.close(']')
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if l.Peek() != ',' {
			return l.close(']')
		}
		l.Pos++
	}
}

// open reads the first byte of an object or array.
func (l *Lexer) open(first byte) error {
	if l.Peek() != first {
		return l.Expected(quote(first))
	}
	if l.depth >= l.MaxDepth {
		return l.problem("nested deeper than %d", l.MaxDepth)
	}
	l.depth++
	l.Pos++
	return nil
}

// close reads the last byte of an object or array.
func (l *Lexer) close(last byte) error {
	if l.Peek() != last {
		return l.Expected("',' or " + quote(last))
	}
	l.depth--
	l.Pos++
	return nil
}

func quote(c byte) string { return "'" + string(c) + "'" }

// Skip reads a value of any kind.
func (l *Lexer) Skip() error {
	l.Peek()
	if end := valueEnd(l.Data, l.Pos, l.MaxDepth-l.depth); end >= 0 && !l.Strict {
		l.Pos = end
		return nil
	}
	switch l.Kind() {
	case Object:
		return l.Object(func([]byte) error { return l.Skip() })
	case Array:
		return l.Array(l.Skip)
	case String:
		_, _, err := l.RawString()
		return err
	case Number:
		_, err := l.Number()
		return err
	case Bool:
		_, err := l.Bool()
		return err
	case Null:
		if l.Null() {
			return nil
		}
	}
	return l.Expected("a value")
}

// Null reads a null, and reports whether there was one.
func (l *Lexer) Null() bool { return l.word("null") }

// Bool reads true or false.
func (l *Lexer) Bool() (bool, error) {
	switch {
	case l.word("true"):
		return true, nil
	case l.word("false"):
		return false, nil
	}
	return false, l.Expected("true or false")
}

// word reads w, and reports whether it was there.
func (l *Lexer) word(w string) bool {
	if l.Peek() != w[0] || len(l.Data)-l.Pos < len(w) || string(l.Data[l.Pos:l.Pos+len(w)]) != w {
		return false
	}
	l.Pos += len(w)
	return true
}

// at reports whether c is the next byte.
func (l *Lexer) at(c byte) bool { return l.Pos < len(l.Data) && l.Data[l.Pos] == c }
