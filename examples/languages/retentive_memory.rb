# frozen_string_literal: true

# The memory tool for agents in Ruby: each call of the model goes to a retentive server.
require "json"
require "net/http"

# A memory store on a server. `timeout` limits each step of an attempt, in seconds.
class RetentiveMemory
  # A failure for the app, such as a wrong key (401).
  class Error < StandardError; end

  TROUBLE = [IOError, SystemCallError, SocketError, Timeout::Error, OpenSSL::SSL::SSLError, Net::ProtocolError,
             Net::HTTPBadResponse, JSON::ParserError].freeze

  def initialize(url, key, store, timeout: 30)
    @uri = URI("#{url}/v1/memory_stores/#{URI.encode_www_form_component(store)}/tool")
    @headers = { "x-api-key" => key, "content-type" => "application/json" }
    @options = { use_ssl: @uri.scheme == "https", open_timeout: timeout, read_timeout: timeout, write_timeout: timeout }
  end

  # The tool_result block of a tool_use block: `call(block.id, block.input)`. A call sent again is carried out once.
  def call(id, input)
    body = JSON.generate({ type: "tool_use", id: id, name: "memory", input: input })
    status, answer = post(body)
    if [nil, 429, 502, 503, 504].include?(status)
      sleep 1
      status, answer = post(body)
    end
    return answer if status == 200
    raise Error, "no memory server answers at the URL" unless status

    error = answer[:error]
    raise Error, "the memory server answered #{status}: #{error.is_a?(Hash) ? error[:message] : error}"
  end

  private

  def post(body)
    answer = Net::HTTP.start(@uri.host, @uri.port, **@options) { |http| http.post(@uri.path, body, @headers) }
    found = JSON.parse(answer.body.to_s, symbolize_names: true)
    [answer.code.to_i, found] if found.is_a?(Hash) && (answer.code != "200" || found[:content].is_a?(String))
  rescue *TROUBLE
    nil
  end
end
