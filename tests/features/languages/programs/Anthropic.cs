// What the handler uses of the official SDK, which CI cannot install: the same names, signatures and calls.
using System.Collections.Generic;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using Anthropic.Models.Beta.Messages;

namespace Anthropic.Models.Beta.Messages
{
    using Fields = IReadOnlyDictionary<string, JsonElement>;

    public abstract class JsonModel { public Fields RawData { get; set; } }
    public sealed class BetaMemoryTool20250818ViewCommand : JsonModel { }
    public sealed class BetaMemoryTool20250818CreateCommand : JsonModel { }
    public sealed class BetaMemoryTool20250818StrReplaceCommand : JsonModel { }
    public sealed class BetaMemoryTool20250818InsertCommand : JsonModel { }
    public sealed class BetaMemoryTool20250818DeleteCommand : JsonModel { }
    public sealed class BetaMemoryTool20250818RenameCommand : JsonModel { }
    public sealed class BetaToolUseBlock { public string ID { get; set; } public Fields Input { get; set; } }
    public sealed class BetaToolResultBlockParamContent
    {
        public string Text;
        public static implicit operator BetaToolResultBlockParamContent(string value) => new BetaToolResultBlockParamContent { Text = value };
    }
}

namespace Anthropic.Helpers.Beta
{
    public sealed class BetaToolError : System.Exception { public BetaToolError(string content) : base(content) { } }

    public interface IBetaRunnableTool
    {
        string Name { get; }
        Task<BetaToolResultBlockParamContent> ExecuteAsync(BetaToolUseBlock toolUseBlock, CancellationToken cancellationToken);
    }

    public abstract class BetaAbstractMemoryTool : IBetaRunnableTool
    {
        public string Name => "memory";

        public Task<BetaToolResultBlockParamContent> ExecuteAsync(BetaToolUseBlock toolUseBlock, CancellationToken cancellationToken)
        {
            var given = toolUseBlock.Input;
            switch (given["command"].GetString())
            {
                case "view": return ViewAsync(new BetaMemoryTool20250818ViewCommand { RawData = given }, cancellationToken);
                case "create": return CreateAsync(new BetaMemoryTool20250818CreateCommand { RawData = given }, cancellationToken);
                case "str_replace": return StrReplaceAsync(new BetaMemoryTool20250818StrReplaceCommand { RawData = given }, cancellationToken);
                case "insert": return InsertAsync(new BetaMemoryTool20250818InsertCommand { RawData = given }, cancellationToken);
                case "delete": return DeleteAsync(new BetaMemoryTool20250818DeleteCommand { RawData = given }, cancellationToken);
                default: return RenameAsync(new BetaMemoryTool20250818RenameCommand { RawData = given }, cancellationToken);
            }
        }

        protected abstract Task<BetaToolResultBlockParamContent> ViewAsync(BetaMemoryTool20250818ViewCommand command, CancellationToken cancellationToken);
        protected abstract Task<BetaToolResultBlockParamContent> CreateAsync(BetaMemoryTool20250818CreateCommand command, CancellationToken cancellationToken);
        protected abstract Task<BetaToolResultBlockParamContent> StrReplaceAsync(BetaMemoryTool20250818StrReplaceCommand command, CancellationToken cancellationToken);
        protected abstract Task<BetaToolResultBlockParamContent> InsertAsync(BetaMemoryTool20250818InsertCommand command, CancellationToken cancellationToken);
        protected abstract Task<BetaToolResultBlockParamContent> DeleteAsync(BetaMemoryTool20250818DeleteCommand command, CancellationToken cancellationToken);
        protected abstract Task<BetaToolResultBlockParamContent> RenameAsync(BetaMemoryTool20250818RenameCommand command, CancellationToken cancellationToken);
    }
}
