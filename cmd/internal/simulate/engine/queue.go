package engine

// queue is the requests that wait, first come first, with those that were preempted in front.
type queue struct {
	list []*Request
	head int
}

func (q *queue) len() int        { return len(q.list) - q.head }
func (q *queue) first() *Request { return q.list[q.head] }
func (q *queue) all() []*Request { return q.list[q.head:] }
func (q *queue) push(r *Request) { q.list = append(q.list, r) }

func (q *queue) pop() *Request {
	r := q.list[q.head]
	q.list[q.head] = nil
	if q.head++; q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	} else if q.head > 64 && q.head > len(q.list)/2 { // the memory follows those that wait, not those that came
		q.list, q.head = append(q.list[:0], q.list[q.head:]...), 0
	}
	return r
}

func (q *queue) pushFront(r *Request) {
	if q.head == 0 {
		room := 8 + len(q.list)
		list := make([]*Request, room+len(q.list), 2*room+len(q.list))
		copy(list[room:], q.list)
		q.list, q.head = list, room
	}
	q.head--
	q.list[q.head] = r
}
