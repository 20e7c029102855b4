package engine

// index finds the slot of the oldest visible copy of a block by its chain number. Chain numbers come in runs, so the table
// is in pages of consecutive numbers, which exist while one of their blocks does: its size follows the pool, not the load.
type index struct {
	pages  []int32 // of each pageSize chain numbers: the page + 1; 0: none
	slots  [][pageSize]int32
	counts []int32 // of each page: its blocks
	unused []int32
}

const (
	pageBits = 5
	pageSize = 1 << pageBits
)

// find returns the slot of a chain number, or none.
func (x *index) find(chain uint32) int32 {
	p := chain >> pageBits
	if int(p) >= len(x.pages) || x.pages[p] == 0 {
		return none
	}
	return x.slots[x.pages[p]-1][chain%pageSize] - 1
}

// put stores the slot of a chain number that has none. It returns the slot of one that has, which stays.
func (x *index) put(chain uint32, slot int32) (there int32) {
	p := chain >> pageBits
	if int(p) >= len(x.pages) {
		x.pages = append(x.pages, make([]int32, int(p)+1-len(x.pages))...)
	}
	page := x.pages[p]
	if page == 0 {
		page = x.newPage() + 1
		x.pages[p] = page
	}
	place := &x.slots[page-1][chain%pageSize]
	if *place != 0 {
		return *place - 1
	}
	*place = slot + 1
	x.counts[page-1]++
	return none
}

// swap replaces the slot of a chain number, which has one, if it is from; to may be none. It returns the slot that was there.
func (x *index) swap(chain uint32, from, to int32) (there int32) {
	p := chain >> pageBits
	page := x.pages[p] - 1
	place := &x.slots[page][chain%pageSize]
	if there = *place - 1; there != from {
		return there
	}
	*place = to + 1
	if to != none {
		return there
	}
	if x.counts[page]--; x.counts[page] == 0 {
		x.pages[p] = 0
		x.unused = append(x.unused, page)
	}
	return there
}

// newPage returns an empty page.
func (x *index) newPage() int32 {
	if n := len(x.unused); n > 0 {
		page := x.unused[n-1]
		x.unused = x.unused[:n-1]
		return page
	}
	x.slots = append(x.slots, [pageSize]int32{})
	x.counts = append(x.counts, 0)
	return int32(len(x.slots) - 1)
}
