package simulate

import (
	"fmt"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
)

// Warnings returns what a user should know of a run beside its numbers.
func (r *Result) Warnings() (list []string) {
	if why := r.rejections(); why != "" {
		list = append(list, why)
	}
	if p := r.Planned; p != nil {
		for _, text := range p.warnings() {
			list = append(list, "planner: "+text)
		}
	}
	return list
}

// rejections says why requests were rejected; "" where none was.
func (r *Result) rejections() string {
	n, prompt := 0, 0
	for _, q := range r.Requests {
		if q.Status == engine.Rejected {
			n++
			prompt = max(prompt, q.Prompt)
		}
	}
	if n == 0 {
		return ""
	}
	e := r.Config.Engines()[0].Config // the pool that sees a prompt first
	for _, other := range r.Config.Engines()[1:] {
		if other.Config.Blocks < e.Blocks {
			e = other.Config
		}
	}
	limits := fmt.Sprintf("a worker holds %d (num_gpu_blocks %d, block_size %d)", e.Blocks*e.BlockSize, e.Blocks, e.BlockSize)
	if e.MaxModelLen > 0 {
		limits += fmt.Sprintf(", and max_model_len is %d", e.MaxModelLen)
	}
	return fmt.Sprintf("%d of %d requests are rejected, the largest with a prompt of %d tokens: %s", n, len(r.Requests), prompt, limits)
}
