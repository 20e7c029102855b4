package aiperf

// Samples of the forms: what the reader decides is in keys of text caches.
const (
	sampleSingle = `{"text":"What is deep learning?","output_length":50}
{"texts":["Who are you?","Hello"],"role":"user","session_id":"a","timestamp":1000.7,"extra":{"temperature":0.5,"max_tokens":7}}
{"text":"","image":"https://host/a.png","session_id":"a","timestamp":2500,"output_length":3}
{"texts":[{"name":"q","contents":["one","two"]}],"audios":["wav,AAAA"],"unknown":1}
{"texts":"no list"}`
	samplePool = `{"text":"first"}
{"text":"second","session_id":"x"}
{"image":"file.png"}`
	sampleMulti = `{"session_id":"a","turns":[{"role":"system","text":"Be brief."},{"text":"Hi","output_length":5},{"text":"And now?","delay":1000}]}
{"turns":[{"timestamp":0,"text":"one"},{"timestamp":900,"texts":["two"]}]}
{"session_id":"b","turns":[{"role":"system","text":"alone"}]}
{"session_id":"a","turns":[{"text":"more","delay":250.5}]}
{"session_id":"c","turns":"none"}`
	sampleMooncake = `{"text_input":"Hello","timestamp":10,"output_length":4,"session_id":"s"}
{"text_input":"Again","delay":50,"output_length":4,"session_id":"s","extra":{"top_p":1}}
{"messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"hi"}]}],"output_length":9,"timestamp":20,"tools":[{"type":"function","function":{"name":"f"}}]}
{"payload":{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":3},"timestamp":30}
{"messages":[],"output_length":9}`
	sampleRaw = `{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"hi"}],"max_tokens":5,"temperature":0,"stream":true}
{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"r"}],"tools":[{"type":"function","function":{"name":"f"}}]}
{"system":"S","messages":[{"role":"user","content":"hi","name":"x"}]}
{"messages":"hi"}`
	sampleInputs = `{"data":[{"session_id":"a","payloads":[{"messages":[{"role":"user","content":"hi"}],"max_completion_tokens":5},{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"more"}]}]},{"session_id":"b","payloads":[{"messages":[{"role":"user","content":"ho"}]}]}]}
{"data":[{"payloads":[]}]}`
	sampleDAG = `{"session_id":"r","pre_session_spawns":["p"],"turns":[{"messages":[{"role":"system","content":"S"},{"role":"user","content":"one"}],"max_tokens":9,"spawns":["s",{"children":["t"],"join_at":2}]},{"messages":[{"role":"user","content":"two"}],"delay":100},{"messages":[{"role":"user","content":"three"}],"forks":["f",{"child":"g","background":true}],"extra":{"seed":1}}]}
{"session_id":"s","turns":[{"messages":[{"role":"user","content":"child"}],"delay":20}]}
{"session_id":"t","context_mode":"deltas_without_responses","turns":[{"messages":[{"role":"user","content":"child"}],"tools":[{"type":"function","function":{"name":"f"}}]},{"messages":[{"role":"user","content":"more"}]}]}
{"session_id":"f","turns":[{"messages":[{"role":"user","content":"fork"}]}]}
{"session_id":"g","turns":[{"messages":[{"role":"user","content":"fork"}]}]}
{"session_id":"p","turns":[{"messages":[{"role":"user","content":"before"}]}]}
{"session_id":"o","orchestrator":true,"spawns":["s"]}`
)
