package meet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The environment of an engine says where parts meet: on the machine of part 0, at a port of the job.
func TestMeetingOfTheEnvironment(t *testing.T) {
	for environment, want := range map[string]string{
		"": "",
		"SLURM_PROCID=1 SLURM_JOB_ID=12345 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=node[01-03,07]":       "node01:22345",
		"SLURM_PROCID=1 SLURM_JOB_ID=12345 SLURM_STEP_ID=2 SLURM_STEP_NODELIST=node[01-03,07]":       "node01:24345",
		"SLURM_PROCID=1 SLURM_JOB_ID=99 SLURM_STEP_NODELIST=b[2-3] SLURM_JOB_NODELIST=a[1-4],b[2-3]": "b2:20099",
		"SLURM_PROCID=1 SLURM_JOB_ID=99 SLURM_JOB_NODELIST=a[1-4],b[2-3]":                            "a1:20099",
		"SLURM_PROCID=1 SLURM_JOB_NODELIST=gpu7 AGENTX_MEET_PORT=7011":                               "gpu7:7011",
		"SLURM_PROCID=1 SLURM_JOB_NODELIST=gpu7 AGENTX_MEET_PORT=70110":                              "AGENTX_MEET_PORT=70110: want 1 to 65535",
		"SLURM_PROCID=1 SLURM_JOB_NODELIST=gpu[7":                                                    "SLURM_JOB_NODELIST=gpu[7: want a list of hosts",
		"SLURM_PROCID=1 SLURM_LAUNCH_NODE_IPADDR=10.0.0.1":                                           "", // where srun was called
		"SLURM_JOB_NODELIST=gpu7": "",
		"SLURM_PROCID=0 SLURM_JOB_NODELIST=a RANK=0 MASTER_ADDR=b MASTER_PORT=1": "a:20000",
		"RANK=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500":                          "10.0.0.1:29501",
		"RANK=1 MASTER_ADDR=fe80::1 MASTER_PORT=29500":                           "[fe80::1]:29501",
		"RANK=1 MASTER_ADDR=n0 AGENTX_MEET_PORT=7011":                            "n0:7011",
		"RANK=1 MASTER_ADDR=n0":                                                  "MASTER_ADDR=n0 without a MASTER_PORT from 1 to 65534",
		"RANK=1 MASTER_ADDR=n0 MASTER_PORT=65535":                                "MASTER_ADDR=n0 without a MASTER_PORT from 1 to 65534",
		"RANK=1 MASTER_PORT=29500":                                               "",
		"MASTER_ADDR=n0 MASTER_PORT=29500":                                       "",
		"OMPI_COMM_WORLD_RANK=1":                                                 "",
		"JOB_COMPLETION_INDEX=1":                                                 "",
	} {
		set := map[string]string{}
		for _, v := range strings.Fields(environment) {
			name, value, _ := strings.Cut(v, "=")
			set[name] = value
		}
		got, err := AddressOfEnvironment(func(name string) (string, bool) { v, ok := set[name]; return v, ok })
		if err != nil {
			require.ErrorContains(t, err, want, environment)
			require.NotEmpty(t, want, environment)
			continue
		}
		require.Equal(t, want, got, environment)
	}
}

func TestFirstHost(t *testing.T) {
	for list, want := range map[string]string{
		"n1": "n1", "n1,n2": "n1", "node[01-03,07]": "node01", "node[07,01-03]": "node07", "r[1-2]n[3-4],x": "r1n3", "a[1]b": "a1b",
		"a-b[010-020].example.org,c": "a-b010.example.org", "": "", ",n1": "", "n[": "", "n[]": "", "n[1": "", "n]1": "", "n[-1]": "", "n 1": "",
	} {
		got, err := firstHost(list)
		require.Equal(t, want, got, list)
		require.Equal(t, want == "", err != nil, list)
	}
}
