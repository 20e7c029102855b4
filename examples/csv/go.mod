module example.com/csv

go 1.26.0

require github.com/agentx/agentx v0.0.0

replace github.com/agentx/agentx => ../..
