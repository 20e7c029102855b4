package chain

import "encoding/binary"

// table numbers digests in the order in which they are added. It is a hash table whose keys are random already. Unlike a map it
// can be overwritten.
type table struct {
	keys  []short  // by number
	slots []uint32 // a number and one, 0 where there is none; a power of two of them
}

// find returns the number of a digest.
func (t *table) find(key short) (number uint32, found bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	n := t.slots[t.slot(key)]
	return n - 1, n != 0
}

// add numbers a digest that the table does not have.
func (t *table) add(key short) uint32 {
	if 4*len(t.keys) >= 3*len(t.slots) {
		t.grow()
	}
	t.keys = appendErasing(t.keys, key)
	t.slots[t.slot(key)] = uint32(len(t.keys))
	return uint32(len(t.keys) - 1)
}

// slot returns the slot in which a digest is, or the free one where it belongs.
func (t *table) slot(key short) int {
	mask := len(t.slots) - 1
	for i := int(binary.LittleEndian.Uint32(key[:])) & mask; ; i = (i + 1) & mask {
		if n := t.slots[i]; n == 0 || t.keys[n-1] == key {
			return i
		}
	}
}

// grow doubles the slots.
func (t *table) grow() {
	t.slots = make([]uint32, max(64, 2*len(t.slots)))
	for i, key := range t.keys {
		t.slots[t.slot(key)] = uint32(i + 1)
	}
}

// erase overwrites the digests.
func (t *table) erase() {
	clear(t.keys[:cap(t.keys)])
	clear(t.slots)
	*t = table{}
}

// appendErasing appends to a list of secrets. What it leaves behind is overwritten.
func appendErasing[T any](list []T, elements ...T) []T {
	if size := len(list) + len(elements); size > cap(list) {
		longer := make([]T, len(list), max(16, size, len(list)+len(list)/2))
		copy(longer, list)
		clear(list)
		list = longer
	}
	return append(list, elements...)
}
