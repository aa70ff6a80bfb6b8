// The memory tool for agents in C#: each call of the model goes to a retentive server.
using System;
using System.Collections.Generic;
using System.Net.Http;
using System.Text;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using Anthropic.Helpers.Beta;
using Anthropic.Models.Beta.Messages;
using Reply = Anthropic.Models.Beta.Messages.BetaToolResultBlockParamContent;

/// <summary>The tool, for client.Beta.Messages.ToolRunner(parameters, [tool]).</summary>
public sealed class RetentiveMemory : BetaAbstractMemoryTool, IBetaRunnableTool
{
    // Without redirects: the key is for this server only.
    readonly HttpClient _client = new HttpClient(new HttpClientHandler { AllowAutoRedirect = false });
    readonly Uri _url;

    /// <summary>A memory store on a server. The timeout, 30 seconds by default, limits each attempt.</summary>
    public RetentiveMemory(string url, string key, string store, TimeSpan? timeout = null)
    {
        _url = new Uri(url + "/v1/memory_stores/" + Uri.EscapeDataString(store) + "/tool");
        _client.Timeout = timeout ?? TimeSpan.FromSeconds(30);
        _client.DefaultRequestHeaders.Add("x-api-key", key);
    }

    // The runner calls this one. A call that is sent again with its id is carried out once.
    Task<Reply> IBetaRunnableTool.ExecuteAsync(BetaToolUseBlock call, CancellationToken stop) => Send(call.ID, call.Input, stop);

    protected override Task<Reply> ViewAsync(BetaMemoryTool20250818ViewCommand command, CancellationToken stop) => Send(null, command.RawData, stop);
    protected override Task<Reply> CreateAsync(BetaMemoryTool20250818CreateCommand command, CancellationToken stop) => Send(null, command.RawData, stop);
    protected override Task<Reply> StrReplaceAsync(BetaMemoryTool20250818StrReplaceCommand command, CancellationToken stop) => Send(null, command.RawData, stop);
    protected override Task<Reply> InsertAsync(BetaMemoryTool20250818InsertCommand command, CancellationToken stop) => Send(null, command.RawData, stop);
    protected override Task<Reply> DeleteAsync(BetaMemoryTool20250818DeleteCommand command, CancellationToken stop) => Send(null, command.RawData, stop);
    protected override Task<Reply> RenameAsync(BetaMemoryTool20250818RenameCommand command, CancellationToken stop) => Send(null, command.RawData, stop);

    async Task<Reply> Send(string id, IReadOnlyDictionary<string, JsonElement> input, CancellationToken stop)
    {
        id = id ?? "toolu_" + Guid.NewGuid().ToString("N");
        var body = JsonSerializer.Serialize(new { type = "tool_use", id, name = "memory", input });
        var answer = await Post(body, stop);
        if (Array.IndexOf(new[] { 0, 429, 502, 503, 504 }, answer.Key) >= 0)
        {
            await Task.Delay(1000, stop);
            answer = await Post(body, stop);
        }
        return Told(answer.Key, answer.Value);
    }

    static Reply Told(int status, JsonElement answer)
    {
        if (status == 0) throw new InvalidOperationException("no memory server answers at the URL");
        if (status != 200)
            throw new InvalidOperationException("the memory server answered " + status + ": " + Found(Found(answer, "error"), "message"));
        var content = answer.GetProperty("content").GetString();
        if (answer.TryGetProperty("is_error", out _)) throw new BetaToolError(content);
        return content;
    }

    async Task<KeyValuePair<int, JsonElement>> Post(string body, CancellationToken stop)
    {
        try
        {
            using (var content = new StringContent(body, Encoding.UTF8, "application/json"))
            using (var answer = await _client.PostAsync(_url, content, stop))
            {
                var found = JsonSerializer.Deserialize<JsonElement>(await answer.Content.ReadAsStringAsync());
                var isOther = answer.IsSuccessStatusCode && Found(found, "content").ValueKind != JsonValueKind.String;
                return new KeyValuePair<int, JsonElement>(isOther ? 0 : (int)answer.StatusCode, found);
            }
        }
        catch (Exception error) when (error is HttpRequestException || error is OperationCanceledException || error is JsonException)
        {
            stop.ThrowIfCancellationRequested();
            return default(KeyValuePair<int, JsonElement>);
        }
    }

    static JsonElement Found(JsonElement each, string name) =>
        each.ValueKind == JsonValueKind.Object && each.TryGetProperty(name, out var found) ? found : default(JsonElement);
}
