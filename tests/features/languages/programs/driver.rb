# Runs the call of each line of standard input, and prints its result as a line.
require_relative "retentive_memory"

$stdin.each_line do |line|
  sent = JSON.parse(line)
  memory = RetentiveMemory.new(sent["url"], sent["key"], sent["store"], timeout: sent["timeout"])
  result = begin
    memory.call(sent["block"]["id"], sent["block"]["input"])
  rescue RetentiveMemory::Error => e
    { failed: e.message }
  end
  puts JSON.generate(result)
end
