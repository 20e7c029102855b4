package content

// Names are numbered strings, of which a row keeps the numbers. 0 is the empty one. The zero value has no other.
type Names struct {
	list    []string
	numbers map[string]int32
}

// Number returns the number of a name, which is added unless it is there.
func (n *Names) Number(name []byte) int32 {
	if len(name) == 0 {
		return 0
	}
	k, ok := n.numbers[string(name)]
	if !ok {
		if n.numbers == nil {
			n.list, n.numbers = []string{""}, map[string]int32{}
		}
		k = int32(len(n.list))
		n.list = append(n.list, string(name))
		n.numbers[n.list[k]] = k
	}
	return k
}

// Name returns the name of a number.
func (n *Names) Name(number int32) string {
	if number == 0 {
		return ""
	}
	return n.list[number]
}

// Len returns how many names there are, the empty one left out.
func (n *Names) Len() int { return len(n.numbers) }

// Has reports whether a name has a number.
func (n *Names) Has(name string) bool { return n.numbers[name] != 0 }

// Done gives up what finds numbers: no name is added any more.
func (n *Names) Done() { n.numbers = nil }
